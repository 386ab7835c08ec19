package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/cofferhq/coffer/internal/engine"
	"github.com/spf13/cobra"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can do, and how to mend what it cannot",
		Long: `Look at this host, engine by engine: a sandbox is really booted. If you keep secrets,
it is said whether they can be read, and what protects them. Exits with 1 if no engine
works; a run then takes a jail, if that does.`,
		Example: "  coffer doctor",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := interruptible(c)
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			reports := map[string]engine.Report{}
			usable := false
			for _, e := range engines() {
				r := e.Probe(ctx)
				// What was given up says nothing about the host.
				var given givenUp
				if errors.As(context.Cause(ctx), &given) {
					return given
				}
				reports[e.Name()] = r
				usable = usable || r.Usable
				if !asJSON {
					printReport(e.Name()+" engine", r)
				}
			}
			reports["jail"] = jailReport()
			if !asJSON {
				printReport("jail", reports["jail"])
				printVault()
			}
			if asJSON {
				if err := printJSON(reports); err != nil {
					return err
				}
			}
			if !usable {
				fmt.Fprintf(os.Stderr, "coffer: no engine works on this host (%s)\n", runtime.GOOS)
				return status(1)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printReport(name string, r engine.Report) {
	state := "works"
	if !r.Usable {
		state = "does not work"
	}
	fmt.Fprintf(stdout, "%s: %s\n", name, state)
	for _, c := range r.Checks {
		mark := "ok  "
		switch {
		case !c.OK && c.Needed:
			mark = "NO  "
		case !c.OK:
			mark = "--  "
		}
		fmt.Fprintf(stdout, "  %s%s: %s\n", mark, c.What, c.Detail)
		if !c.OK && c.Fix != "" {
			fmt.Fprintf(stdout, "      fix: %s\n", c.Fix)
		}
	}
}
