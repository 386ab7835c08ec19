package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

// openings are the flags by which ways through the wall are made.
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

// parseForward reads P, H:P or :P.
func parseForward(text string) (f wire.Forward, err error) {
	host, inside, both := strings.Cut(text, ":")
	if !both {
		inside = host
	}
	if f.Inside, err = parsePort(inside); err != nil {
		return f, err
	}
	if host == "" {
		f.Any = true
		return f, nil
	}
	f.Host, err = parsePort(host)
	return f, err
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strings.HasPrefix(text, "+") {
		return 0, ui.Hint(usagef("%q is not a port: want a number from 1 to 65535", text), "a forward is HOST:INSIDE, such as 8080:3000; 3000 for the same on both sides; :3000 for any that is free")
	}
	return uint16(n), nil
}

func parseForwards(texts []string) (all []wire.Forward, err error) {
	for _, text := range texts {
		f, err := parseForward(text)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// parseSocketIn reads HOSTPATH[:INSIDEPATH].
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
	if errors.Is(err, fs.ErrNotExist) {
		return k, ui.Error(fmt.Sprintf("there is no socket %s", host), "start the program that listens there first")
	}
	if err != nil {
		return k, ui.Hint(fmt.Errorf("find the socket %s: %w", host, err), "start the program that listens there first")
	}
	k = sandbox.Socket{Way: sandbox.SocketIn, Host: real, Inside: inside}
	if info, err := os.Stat(real); err != nil || info.Mode()&os.ModeSocket == 0 {
		return k, usagef("%s is not a Unix socket", host)
	}
	return k, checkHost(w, host, real)
}

// parseSocketOut reads INSIDEPATH:HOSTPATH.
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
		return ui.Hint(usagef("%s is in the workspace, where the socket would stay", path), "choose a place in /run, /tmp or the home: --socket-in HOSTPATH:INSIDEPATH")
	}
	return nil
}

// checkHost refuses places on the host that programs inside can write to: they could
// put a link in the place of a socket, and have us open or remove what they like.
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

// checkMounts is checkHost for the places that config files make writable.
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
func (o *openings) publishOn(line *supervisor.Line) error {
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
func announceNew(store *sandbox.Store, id string, forwards []sandbox.Forward) {
	for _, f := range forwards {
		if f.Any && f.Host == 0 {
			if sb, err := store.Get(id); err == nil {
				forwards = sb.Forwards
			}
			break
		}
	}
	for _, f := range forwards {
		announce([]wire.Forward{wire.Forward(f)})
	}
}

// lead says where a port leads.
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

// showOpenings prints the ways through the wall, in detail.
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
