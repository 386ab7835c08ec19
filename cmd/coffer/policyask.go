package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

type waits struct {
	gateway.Request
	Sandbox string `json:"sandbox"`

	sb *sandbox.Sandbox
}

// questions lists what waits in one sandbox, or in all, jails too. The error is about those that did not answer.
func (a *about) questions() (list []waits, err error) {
	var all []*sandbox.Sandbox
	if a.match != "" {
		sb, err := a.sandbox()
		if err != nil {
			return nil, err
		}
		all = append(all, sb)
	} else {
		store, err := openStore()
		if err != nil {
			return nil, err
		}
		all, _ = store.List()
		if jails, err := jailStore(); err == nil {
			more, _ := jails.List()
			all = append(all, more...)
		}
		all = slices.DeleteFunc(all, func(sb *sandbox.Sandbox) bool { return sb.Network.None() || !sb.Running() })
	}
	var errs []error
	for _, sb := range all {
		r, err := network.ChangePolicy(sb, network.Change{Do: "pending"})
		if err != nil && (a.match != "" || sb.Running()) { // one that has just ended has nothing to say
			errs = append(errs, fmt.Errorf("ask sandbox %s what waits: %w", sb.Name, err))
		}
		for _, q := range r.Pending {
			list = append(list, waits{q, sb.Name, sb})
		}
	}
	return list, errors.Join(errs...)
}

// whose finds the sandbox in which the question with a number waits.
func (a *about) whose(id int) (*sandbox.Sandbox, error) {
	if a.match != "" {
		return a.sandbox()
	}
	list, err := a.questions()
	if err != nil {
		return nil, ui.Hint(err, "say which sandbox is meant with -m; see 'coffer policy pending'")
	}
	list = slices.DeleteFunc(list, func(q waits) bool { return q.ID != id })
	switch len(list) {
	case 0:
		return nil, ui.Error(fmt.Sprintf("no question has the number %d", id), "see 'coffer policy pending'")
	case 1:
		return list[0].sb, nil
	}
	return nil, ui.Error(fmt.Sprintf("there is a question %d in several sandboxes", id), "say which is meant with -m; see 'coffer policy pending'")
}

func policyPending() *cobra.Command {
	var a about
	var asJSON bool
	c := &cobra.Command{
		Use:   "pending",
		Short: "List the questions that wait for your answer",
		Long: `List the connections, pushes, fetches and uses of gh that wait for your answer, in all
sandboxes that run, or in the one that is named.`,
		Example: "  coffer policy pending\n  coffer policy pending -m calm-otter",
		RunE: func(*cobra.Command, []string) error {
			list, err := a.questions()
			if asJSON {
				return errors.Join(printJSON(append([]waits{}, list...)), err)
			}
			if len(list) == 0 {
				if err == nil {
					fmt.Fprintln(os.Stderr, "nothing waits for an answer")
				}
				return err
			}
			t := ui.Table{{"NUMBER", "DESTINATION", "WAITS", "CONNECTIONS", "SANDBOX", "WHY"}}
			for _, q := range list {
				t.Add(strconv.Itoa(q.ID), network.Describe(q.Request), time.Since(q.Since).Round(time.Second).String(), strconv.Itoa(q.Flows), q.Sandbox, q.Reason)
			}
			return errors.Join(t.Print(stdout), err)
		},
	}
	c.Flags().StringVarP(&a.match, "sandbox", "m", "", "the sandbox that is meant, by `ID` or name (default: all that run)")
	_ = c.RegisterFlagCompletionFunc("sandbox", completeSandbox)
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
reset; with --for it lasts so long, and with --once it is for what waits now only. What
was answered, and in which sandbox, is said. Numbers begin at another place in every
sandbox, so that one that is gone is not taken for another.

An answer to a push, a fetch or a use of gh is for that one; with --for, a yes is for
all of that kind that come within that time. Reading and writing with gh are two kinds.`,
		Example: "  coffer policy answer 48213 allow --for 1h\n  coffer policy answer 48213 deny -m calm-otter",
		RunE: func(c *cobra.Command, args []string) error {
			id, err := strconv.Atoi(args[0])
			if err != nil || args[1] != "allow" && args[1] != "deny" {
				return ui.Hint(usagef("want the number of a question and allow or deny"), "see 'coffer policy pending'")
			}
			if lasts < 0 {
				return usagef("an answer cannot last less than no time")
			}
			sb, err := a.whose(id)
			if err != nil {
				return err
			}
			change := network.Change{Do: "answer", ID: id, Allow: args[1] == "allow", Once: once}
			if lasts > 0 {
				change.Expires = time.Now().Add(lasts).UTC()
			}
			r, err := network.ChangePolicy(sb, change)
			if err != nil {
				return err
			}
			done := "denied"
			if change.Allow {
				done = "allowed"
			}
			fmt.Fprintf(os.Stderr, "coffer: %s in sandbox %s: %s\n", done, sb.Name, terminal.Escape(network.Describe(r.Answered)))
			return nil
		},
	}
	c.Flags().StringVarP(&a.match, "sandbox", "m", "", "the sandbox that asks, by `ID` or name (default: the only one with that question)")
	_ = c.RegisterFlagCompletionFunc("sandbox", completeSandbox)
	c.Flags().DurationVar(&lasts, "for", 0, "have the answer hold for this `TIME`, such as 1h")
	c.Flags().BoolVar(&once, "once", false, "for what waits now only")
	exclusive(c, "for once", "for always", "once always")
	c.Flags().BoolVar(&always, "always", false, "until it is reset (the default)")
	return c
}
