package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/demo"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch a scripted agent fail to get out of a sandbox",
		Long: `A scripted agent mends a test in a made-up repository, then tries to steal and to
break what an agent could: keys, git hooks, processes, sockets. It
does all of it twice, first outside against dummies, then in a sandbox. What is
shown is what was seen to happen. Nothing of yours is touched, no network is used.
Exits with 1 if anything got through.`,
		Example: "  coffer demo",
		RunE: func(c *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err == nil {
				program, err = filepath.EvalSymlinks(program)
			}
			if err != nil {
				return err
			}
			o := demo.Options{Program: program, Screen: stdout}
			if terminal.IsTerminal(1) {
				o.Color = ui.Colours()
				o.Pace = 60 * time.Millisecond
			}
			ctx, stop := interruptible(c)
			defer stop()
			err = demo.Run(ctx, o)
			switch {
			case errors.Is(err, demo.ErrThrough):
				return status(1)
			case errors.Is(err, syscall.EPIPE): // nobody is reading any more
				return status(128 + int(syscall.SIGPIPE))
			}
			return err
		},
	}
	c.AddCommand(&cobra.Command{
		Use:    demo.ActCommand + " ROLE",
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c)
			defer stop()
			return demo.Act(ctx, args)
		},
	})
	return c
}
