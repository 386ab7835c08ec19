package main

import (
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/spf13/cobra"
)

func policyPending() *cobra.Command {
	var a about
	var asJSON bool
	c := &cobra.Command{
		Use:     "pending",
		Short:   "List the connections, pushes, fetches and uses of gh that wait for you",
		Example: "  coffer policy pending --sandbox calm-otter",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			sb, err := a.sandbox()
			if err != nil {
				return err
			}
			r, err := supervisor.ChangePolicy(sb, supervisor.Change{Do: "pending"})
			if err != nil {
				return err
			}
			if asJSON {
				if r.Pending == nil {
					r.Pending = []gateway.Request{}
				}
				return printJSON(r.Pending)
			}
			if len(r.Pending) == 0 {
				fmt.Fprintln(os.Stderr, "nothing waits for an answer")
				return nil
			}
			w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "NUMBER\tDESTINATION\tWAITS\tCONNECTIONS\tWHY")
			for _, q := range r.Pending {
				fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", q.ID, terminal.Escape(supervisor.Describe(q)),
					time.Since(q.Since).Round(time.Second), q.Flows, terminal.Escape(q.Reason))
			}
			return w.Flush()
		},
	}
	a.addTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func policyAnswer() *cobra.Command {
	var a about
	var lasts time.Duration
	var once, always bool
	c := &cobra.Command{
		Use:   "answer NUMBER allow|deny",
		Short: "Answer a connection, or another question, that waits",
		Long: `Answer a connection that waits. The answer becomes a rule of the sandbox, until it is
reset; with --for it lasts so long, and with --once it is for what waits now only.

An answer to a push, a fetch or a use of gh is for that one; with --for, a yes is for
all of that kind that come within that time. Reading and writing with gh are two kinds.`,
		Example: "  coffer policy answer 1 allow --for 1h",
		Args:    exactly(2, "the number of a question and allow or deny"),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := strconv.Atoi(args[0])
			if err != nil || args[1] != "allow" && args[1] != "deny" {
				return hint.Wrap(usagef("want the number of a question and allow or deny"), "see 'coffer policy pending'")
			}
			if once && (always || lasts != 0) || always && lasts != 0 || lasts < 0 {
				return usagef("choose one of --for, --once and --always")
			}
			sb, err := a.sandbox()
			if err != nil {
				return err
			}
			change := supervisor.Change{Do: "answer", ID: id, Allow: args[1] == "allow", Once: once}
			if lasts > 0 {
				change.Expires = time.Now().Add(lasts).UTC()
			}
			_, err = supervisor.ChangePolicy(sb, change)
			return err
		},
	}
	a.addTo(c)
	c.Flags().DurationVar(&lasts, "for", 0, "how long the answer holds, such as 1h")
	c.Flags().BoolVar(&once, "once", false, "for what waits now only")
	c.Flags().BoolVar(&always, "always", false, "until it is reset (the default)")
	return c
}
