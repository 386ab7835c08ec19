package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/forward"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

func portForwardCommand() *cobra.Command {
	var match string
	var list, drop, asJSON bool
	c := &cobra.Command{
		Use:               "port-forward [MATCH] [P | H:P | :P]…",
		Aliases:           []string{"pf"},
		ValidArgsFunction: completeSandbox,
		Short:             "Reach ports of a sandbox from this machine",
		Long: `Let ports of this machine lead to ports inside a sandbox: 3000 leads to 3000, 8080:3000
leads from 8080 to 3000, and :3000 leads there from any port that is free. They are
opened on the loopback addresses only, for as long as the sandbox runs, and again
when it is started again. Without ports, those that there are are listed.`,
		Example: `  coffer port-forward web 3000
  coffer pf web 8080:3000 :5173
  coffer pf --list
  coffer pf web --clear 8080`,
		RunE: func(c *cobra.Command, args []string) error {
			match, ports, err := sandboxAndPorts(match, args)
			if err != nil {
				return err
			}
			sb, err := forName.chosen(match)
			if err != nil {
				return err
			}
			switch {
			case list && (drop || len(ports) > 0):
				return usagef("--list goes without ports and without --clear")
			case drop:
				return clearForwards(c.Context(), sb, ports)
			case list || len(ports) == 0:
				return listForwards(sb, asJSON)
			}
			return addForwards(c.Context(), sb, ports)
		},
	}
	matchFlag(c, &match)
	c.Flags().BoolVarP(&list, "list", "l", false, "list what leads inside, and which ports are listened on there")
	c.Flags().BoolVar(&drop, "clear", false, "give up the forwards from these ports (:P: to them), or all")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// portLike says whether something is taken for a port, P, H:P or :P, not for a sandbox.
func portLike(s string) bool {
	local, port, both := strings.Cut(s, ":")
	if !both {
		port = local
	}
	return port != "" && strings.Trim(local+port, "0123456789") == ""
}

// sandboxAndPorts tells the sandbox, which comes first, from ports.
func sandboxAndPorts(match string, args []string) (string, []wire.Forward, error) {
	if match == "" && len(args) > 0 && !portLike(args[0]) {
		match, args = args[0], args[1:]
	}
	ports, err := parseForwards(args)
	return match, ports, err
}

// addForwards makes forwards and prints them.
func addForwards(ctx context.Context, sb *sandbox.Sandbox, ports []wire.Forward) error {
	asked, running, err := forward.Change(ctx, sb, wire.Forwarding{Add: ports}, supervisor.LogOnce)
	if err != nil {
		return err
	}
	for _, f := range asked {
		fmt.Fprintln(stdout, lead(f))
	}
	if !running {
		fmt.Fprintf(os.Stderr, "coffer: sandbox %s does not run; this holds from when it starts\n", sb.Name)
	}
	return nil
}

// clearForwards gives up the forwards from these ports of the host, or all.
func clearForwards(ctx context.Context, sb *sandbox.Sandbox, ports []wire.Forward) error {
	change := wire.Forwarding{ClearAll: len(ports) == 0}
	for _, p := range ports {
		if p.Host == p.Inside {
			p.Inside = 0 // one number is the host's
		}
		change.Clear = append(change.Clear, p)
	}
	_, _, err := forward.Change(ctx, sb, change, supervisor.LogOnce)
	return err
}

// forwardList is what --list --json prints.
type forwardList struct {
	Forwards  []wire.Forward `json:"forwards"`
	Listening []wire.Port    `json:"listening"`
}

func listForwards(sb *sandbox.Sandbox, asJSON bool) error {
	d := describe(sb, true)
	l := forwardList{Forwards: []wire.Forward{}, Listening: []wire.Port{}}
	for _, f := range d.Forwards {
		l.Forwards = append(l.Forwards, wire.Forward(f))
	}
	l.Listening = append(l.Listening, d.Listening...)
	if asJSON {
		return printJSON(l)
	}
	l.print(sb.Name)
	return nil
}

// print shows each forward with who listens, then who listens without a forward.
func (l forwardList) print(name string) {
	if len(l.Forwards)+len(l.Listening) == 0 {
		fmt.Fprintf(os.Stderr, "no port leads into sandbox %s, and nothing listens there\n", name)
		return
	}
	programs := map[uint16]string{}
	for _, p := range l.Listening {
		programs[p.Port] = p.Program
		if p.Program == "" {
			programs[p.Port] = "?"
		}
	}
	t := ui.Table{{"HOST", "INSIDE", "PROGRAM"}}
	row := func(host string, inside uint16) {
		program := programs[inside]
		if program == "" {
			program = "-"
		}
		t.Add(host, strconv.Itoa(int(inside)), program)
	}
	led := map[uint16]bool{}
	for _, f := range l.Forwards {
		host := fmt.Sprintf("127.0.0.1:%d", f.Host)
		if f.Host == 0 {
			host = "any"
		}
		row(host, f.Inside)
		led[f.Inside] = true
	}
	for _, p := range l.Listening {
		if !led[p.Port] {
			row("-", p.Port)
		}
	}
	_ = t.Print(stdout)
}
