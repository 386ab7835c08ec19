package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/forward"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

type openings struct {
	publish   []string
	socketIn  []string
	socketOut []string
}

func (o *openings) addTo(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVarP(&o.publish, "publish", "p", nil, "let port H of this machine's loopback lead to port P inside: `H:P`, P for the same, :P for any that is free")
	f.StringArrayVar(&o.socketIn, "socket-in", nil, "let programs inside reach a Unix socket of this machine: `HOSTPATH[:INSIDEPATH]`")
	f.StringArrayVar(&o.socketOut, "socket-out", nil, "make a Unix socket inside reachable here: `INSIDEPATH:HOSTPATH`")
}

// describe puts what the flags ask for into the record of a new sandbox.
func (o *openings) describe(rec *sandbox.Record) error {
	forwards, err := parseForwards(o.publish)
	if err != nil {
		return err
	}
	for _, f := range forwards {
		rec.Forwards = append(rec.Forwards, sandbox.Forward(f))
	}
	for _, text := range o.socketIn {
		k, err := parseSocketIn(text, rec.Workspace)
		if err != nil {
			return err
		}
		rec.Sockets = append(rec.Sockets, k)
	}
	for _, text := range o.socketOut {
		k, err := parseSocketOut(text, rec.Workspace)
		if err != nil {
			return err
		}
		rec.Sockets = append(rec.Sockets, k)
	}
	return nil
}

func parseForwards(texts []string) (all []wire.Forward, err error) {
	for _, text := range texts {
		host, inside, both := strings.Cut(text, ":")
		if !both {
			inside = host
		}
		f := wire.Forward{Any: host == ""}
		if f.Inside, err = parsePort(inside); err == nil && !f.Any {
			f.Host, err = parsePort(host)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, ui.Hint(usagef("%q is not a port: want a number from 1 to 65535", text), "a forward is HOST:INSIDE, such as 8080:3000; 3000 for the same on both sides; :3000 for any that is free")
	}
	return uint16(n), nil
}

func parseSocketIn(text string, w sandbox.Workspace) (k sandbox.Socket, err error) {
	host, inside, both := strings.Cut(text, ":")
	if host, err = filepath.Abs(host); err != nil {
		return k, err
	}
	if !both {
		inside = host
	}
	if err := checkInside(inside, w); err != nil {
		return k, err
	}
	// Where it is now is what the user means, and stays so.
	real, err := filepath.EvalSymlinks(host)
	if err != nil {
		return k, ui.Hint(fmt.Errorf("find the socket %s: %w", host, err), "start the program that listens there first")
	}
	k = sandbox.Socket{Way: sandbox.SocketIn, Host: real, Inside: inside}
	if info, err := os.Stat(real); err != nil || info.Mode()&os.ModeSocket == 0 {
		return k, usagef("%s is not a Unix socket", host)
	}
	return k, checkHost(w, host, real)
}

func parseSocketOut(text string, w sandbox.Workspace) (k sandbox.Socket, err error) {
	inside, host, both := strings.Cut(text, ":")
	if !both || host == "" {
		return k, usagef("%q does not name a path inside and one on this machine: want INSIDEPATH:HOSTPATH", text)
	}
	if !filepath.IsAbs(inside) || filepath.Clean(inside) != inside {
		return k, usagef("%q is not an absolute path inside the sandbox", inside)
	}
	if host, err = filepath.Abs(host); err != nil {
		return k, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(host))
	if err != nil {
		return k, ui.Hint(fmt.Errorf("find the directory of the socket: %w", err), "make it first")
	}
	k = sandbox.Socket{Way: sandbox.SocketOut, Host: filepath.Join(dir, filepath.Base(host)), Inside: inside}
	if _, err := os.Lstat(k.Host); err == nil {
		return k, ui.Error("there is a file "+k.Host, "remove it, or choose another path for the socket")
	}
	return k, checkHost(w, k.Host)
}

// checkInside refuses places inside where no socket can or should be made.
func checkInside(path string, w sandbox.Workspace) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return usagef("%q is not an absolute path inside the sandbox", path)
	}
	for _, dir := range []string{rootfs.Own, guest.Socket, "/proc", "/sys", "/dev"} {
		if path == dir || safepath.Within(path, dir) {
			return ui.Hint(usagef("%s cannot be the place of a socket", path), "choose one in /run, /tmp or the home")
		}
	}
	if w.Mode == sandbox.WorkspaceDirect && safepath.Within(path, w.Path) {
		return ui.Hint(usagef("the place inside, %s, is in the workspace, where the socket would stay", path), "choose a place in /run, /tmp or the home: --socket-in HOSTPATH:INSIDEPATH")
	}
	return nil
}

// checkHost refuses sockets where programs inside can write: a link there would have us open what they like.
func checkHost(w sandbox.Workspace, paths ...string) error {
	store, err := sandbox.DefaultDir()
	if err != nil {
		return err
	}
	for _, p := range paths {
		if w.Mode == sandbox.WorkspaceDirect && safepath.Within(p, w.Path) || safepath.Within(p, store) {
			return ui.Error(p+" is where programs inside can write", "choose a place outside of the workspace")
		}
	}
	return nil
}

func checkMounts(rec *sandbox.Record) error {
	for _, k := range rec.Sockets {
		for _, m := range rec.Mounts {
			if !m.ReadOnly && (k.Host == m.Source || safepath.Within(k.Host, m.Source)) {
				return ui.Error(k.Host+" is where programs inside can write", "mount "+m.Source+" read-only, or choose a socket elsewhere")
			}
		}
	}
	return nil
}

// publishOn makes the forwards that the flags ask for in a running sandbox.
func (o *openings) publishOn(line *wire.Line) error {
	forwards, err := parseForwards(o.publish)
	if err != nil || len(forwards) == 0 {
		return err
	}
	asked, err := line.Forward(wire.Forwarding{Add: forwards})
	announce(asked)
	return err
}

// announce tells which ports were chosen, where the choice was left to us.
func announce(all []wire.Forward) {
	for _, f := range all {
		if f.Any {
			fmt.Fprintf(os.Stderr, "coffer: %s\n", lead(f))
		}
	}
}

// announceNew is announce for a new sandbox, whose supervisor chose.
func announceNew(store *sandbox.Store, id string) {
	if sb, err := store.Get(id); err == nil {
		for _, f := range sb.Forwards {
			announce([]wire.Forward{wire.Forward(f)})
		}
	}
}

func lead(f wire.Forward) string {
	return fmt.Sprintf("127.0.0.1:%d leads to port %d inside", f.Host, f.Inside)
}

// portsText is what leads inside, and what listens there, for one line: 8080:3000 5173.
func portsText(d described) string {
	const most = 6
	var all []string
	led := map[uint16]bool{}
	for _, f := range d.Forwards {
		if f.Host == 0 {
			all = append(all, fmt.Sprintf(":%d", f.Inside))
		} else {
			all = append(all, fmt.Sprintf("%d:%d", f.Host, f.Inside))
		}
		led[f.Inside] = true
	}
	for _, p := range d.Listening {
		if !led[p.Port] {
			all = append(all, strconv.Itoa(int(p.Port)))
		}
	}
	if len(all) == 0 {
		return "-"
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("+%d", more))
	}
	return strings.Join(all, " ")
}

func showOpenings(d described, row func(name, value string)) {
	for _, f := range d.Forwards {
		row("forward", lead(wire.Forward(f)))
	}
	var all []string
	for _, p := range d.Listening {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%d %s", p.Port, p.Program)))
	}
	row("listening", strings.Join(all, ", "))
	for _, k := range d.Sockets {
		if k.Way == sandbox.SocketIn {
			row("socket in", k.Inside+" leads to "+k.Host+" of the host")
		} else {
			row("socket out", k.Host+" leads to "+k.Inside+" inside")
		}
	}
}

func portForwardCommand() *cobra.Command {
	var match string
	var list, drop, asJSON bool
	c := &cobra.Command{
		Use:  "port-forward [MATCH] [P | H:P | :P]…",
		Args: cobra.ArbitraryArgs, ValidArgsFunction: completeSandbox,
		Aliases: []string{"pf"},
		Short:   "Reach ports of a sandbox from this machine",
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

func sandboxAndPorts(match string, args []string) (string, []wire.Forward, error) {
	if match == "" && len(args) > 0 && strings.Trim(args[0], "0123456789:") != "" {
		match, args = args[0], args[1:]
	}
	ports, err := parseForwards(args)
	return match, ports, err
}

func addForwards(ctx context.Context, sb *sandbox.Sandbox, ports []wire.Forward) error {
	asked, running, err := forward.Change(ctx, sb, wire.Forwarding{Add: ports})
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

func clearForwards(ctx context.Context, sb *sandbox.Sandbox, ports []wire.Forward) error {
	change := wire.Forwarding{ClearAll: len(ports) == 0}
	for _, p := range ports {
		if p.Host == p.Inside {
			p.Inside = 0 // one number is the host's
		}
		change.Clear = append(change.Clear, p)
	}
	_, _, err := forward.Change(ctx, sb, change)
	return err
}

// forwardList is what --list --json prints.
type forwardList struct {
	Forwards  []wire.Forward `json:"forwards"`
	Listening []wire.Port    `json:"listening"`
}

func listForwards(sb *sandbox.Sandbox, asJSON bool) error {
	d := describe(sb, true)
	l := forwardList{Forwards: []wire.Forward{}, Listening: append([]wire.Port{}, d.Listening...)}
	for _, f := range d.Forwards {
		l.Forwards = append(l.Forwards, wire.Forward(f))
	}
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
	programs, led := map[uint16]string{}, map[uint16]bool{}
	for _, p := range l.Listening {
		programs[p.Port] = cmp.Or(p.Program, "?")
	}
	t := ui.Table{{"HOST", "INSIDE", "PROGRAM"}}
	for _, f := range l.Forwards {
		host := fmt.Sprintf("127.0.0.1:%d", f.Host)
		if f.Host == 0 {
			host = "any"
		}
		t.Add(host, fmt.Sprint(f.Inside), cmp.Or(programs[f.Inside], "-"))
		led[f.Inside] = true
	}
	for _, p := range l.Listening {
		if !led[p.Port] {
			t.Add("-", fmt.Sprint(p.Port), programs[p.Port])
		}
	}
	_ = t.Print(stdout)
}
