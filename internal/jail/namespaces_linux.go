package jail

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"syscall"

	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// Errors of a host on which a jail must do with less.
var (
	errRefused = errors.New("user namespaces are not available here")
	errNoNet   = errors.New("network namespaces are not available here")
)

// errExplained is how a jail ends in which nothing is to be run.
var errExplained = errors.New("the jail was explained")

// A first is the first process of a jail's process namespace, as its parent sees it.
type first struct {
	pid   int
	conn  *net.UnixConn
	ready built
	words chan word // what it says; closed at its end
}

// runNamespaces runs the program in namespaces of its own. It fails with errRefused or errNoNet
// if the host does not allow that, and nothing has happened yet.
func (j *jail) runNamespaces() (code int, err error) {
	f, err := j.clone()
	if err != nil {
		return 0, err
	}
	defer f.end()
	j.host = Host{ABI: j.abi(), Layer: Namespaces, Processes: true, Network: j.apart}
	held, err := take(j.layout.context, j.layout.reserve)
	if err != nil {
		return 0, err
	}
	// Nobody may be there any more who could use the names.
	defer func() { f.end(); held.release() }()
	j.layout.reserve, j.layout.silent = held.places, held.silent()
	if err := seed(j.layout.seed); err != nil {
		return 0, err
	}
	before := look(j.layout.locked())
	disconnect, err := j.build(f)
	if disconnect != nil {
		defer disconnect()
	}
	if err != nil {
		return 0, err
	}
	code, err = j.mind(running{wait: f.wait, signal: func(s syscall.Signal) { f.say(word{Signal: s}) }})
	f.end()
	j.reportReplaced(before)
	if planted := j.seen.planted(); planted != "" {
		fmt.Fprintln(j.say, "coffer:", terminal.Escape(planted))
	}
	return code, err
}

// clone starts the first process.
func (j *jail) clone() (*first, error) {
	sys := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNS}
	if j.apart {
		sys.Cloneflags |= unix.CLONE_NEWNET
	}
	if !mayMount() {
		self := func(id int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
		}
		sys.Cloneflags |= unix.CLONE_NEWUSER
		sys.UidMappings, sys.GidMappings = self(os.Geteuid()), self(os.Getegid())
		sys.AmbientCaps = guest.Capabilities()
	}
	pid, conn, err := guest.Spawn([]string{Name}, []uintptr{0, 1, 2}, sys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return &first{pid: pid, conn: conn, words: make(chan word)}, nil
}

// mayMount says whether this process may make mounts without a user namespace.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// build has the first process build the jail and start the program, after what there is to say
// was said. It returns how to end the network.
func (j *jail) build(f *first) (disconnect func(), err error) {
	o, err := j.order()
	if err != nil {
		return nil, err
	}
	if err := guest.WriteOrders(f.conn, o); err != nil {
		return nil, f.lost(err)
	}
	if err := wire.ReadMessage(f.conn, wire.MaxReply, &f.ready); err != nil {
		return nil, f.lost(err)
	}
	switch r := f.ready; {
	case r.Refused:
		return nil, fmt.Errorf("%w: %s", errRefused, r.Error)
	case r.NoNet:
		return nil, fmt.Errorf("%w: %s", errNoNet, r.Error)
	case r.Error != "":
		return nil, errors.New(r.Error)
	}
	net, err := guest.ReceiveLink(f.conn, f.ready.Ready)
	if err != nil {
		return nil, f.lost(err)
	}
	disconnect = func() {}
	if net != nil {
		disconnect = func() { net.Close() }
	}
	j.host.Processes = f.ready.Proc
	walls, gaps, err := j.consider()
	if err == nil {
		err = f.hear() // that the walls stand
	}
	if err != nil {
		return disconnect, err
	}
	if j.tell(j.announcement(walls, gaps)); j.Explain {
		return disconnect, errExplained
	}
	if net != nil {
		end, err := j.Rules.Connect(net)
		if err != nil {
			return disconnect, fmt.Errorf("connect the jail's network: %w", err)
		}
		disconnect = end
	}
	f.say(word{Start: true})
	if err := f.hear(); err != nil {
		return disconnect, err
	}
	go f.listen()
	return disconnect, nil
}

// order says what to build, and to run.
func (j *jail) order() (*order, error) {
	w, err := j.walls()
	if err != nil {
		return nil, err
	}
	sockets, err := rootfs.Sockets(j.Policy.Context)
	if err != nil {
		return nil, err
	}
	secrets, err := j.hidden()
	if err != nil {
		return nil, err
	}
	for _, file := range secrets.keep {
		j.layout.protect(j.layout.context, rootfs.Place{Path: file}, nil)
	}
	if j.layout.closed && !slices.Contains(j.layout.notes, onlyRead) {
		j.layout.note("%s", onlyRead)
	}
	if len(secrets.repos) > 0 && !slices.Contains(j.layout.notes, secrets.note()) {
		j.layout.note("%s", secrets.note())
	}
	l := j.layout
	view := rootfs.HostRoot{
		Shown: l.shown(j.Private), Write: outermost(l.write), Locked: l.locked(), Silent: l.silent,
		Sockets: sockets, Terminal: ownTerminal(), SameProc: j.bare, Ceilings: !mayMount(),
	}
	for _, path := range outermost(l.asked) {
		if within(path, view.Locked) { // opened by name in a place that is closed
			view.Reopened = append(view.Reopened, path)
		}
	}
	for _, f := range secrets.paths {
		view.Hidden = append(view.Hidden, f.Path)
	}
	if j.wired() {
		view.Resolver = "nameserver " + link.Resolver4.String() + "\n"
	}
	if j.Private {
		view.Home = l.home
	}
	o := &order{
		Thread: j.thread(w), Loopback: j.apart, Link: j.wired(), Ruleless: j.ruleless,
		Path: j.program, Argv: j.Argv, Env: j.environment("/tmp"), Dir: j.Policy.Dir,
	}
	if o.Root, err = view.Plan(); err == nil && j.Private {
		o.Read = outermost(slices.Concat(l.needed(), o.Root.Writable))
	}
	return o, err
}

// wired says whether there is a network with rules, in a namespace of its own.
func (j *jail) wired() bool { return j.apart && j.Net == NetRules }

func (f *first) say(w word) { _ = wire.WriteMessage(f.conn, w) }

// hear hears that all is well so far.
func (f *first) hear() error {
	var w word
	if err := wire.ReadMessage(f.conn, wire.MaxReply, &w); err != nil {
		return f.lost(err)
	}
	if w.Failure != nil {
		return w.Failure
	}
	return nil
}

func (f *first) lost(err error) error {
	return fmt.Errorf("the jail's first process has ended: %w", err)
}

// listen hears what becomes of the program.
func (f *first) listen() {
	defer close(f.words)
	for {
		var w word
		if wire.ReadMessage(f.conn, wire.MaxReply, &w) != nil {
			return
		}
		f.words <- w
	}
}

// wait waits until the program stops or ends.
func (f *first) wait() (syscall.WaitStatus, error) {
	for w := range f.words {
		if w.Status != nil {
			return *w.Status, nil
		}
	}
	return 0, errors.New("the jail's first process has ended before the program")
}

// end ends the first process, and with it everything in its namespace.
func (f *first) end() {
	if f.pid == 0 {
		return
	}
	guest.End(f.pid)
	f.pid = 0
	f.conn.Close()
}

// look remembers which files these are.
func look(paths []string) map[string]os.FileInfo {
	seen := map[string]os.FileInfo{}
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil {
			seen[path] = info
		}
	}
	return seen
}

// reportReplaced tells what of the closed places somebody outside has replaced, as git does
// with its config. The kernel takes a mount away with the file that it was over, and the
// new file is not closed to the program.
func (j *jail) reportReplaced(before map[string]os.FileInfo) {
	for _, path := range slices.Sorted(maps.Keys(before)) {
		now, err := os.Lstat(path)
		if err == nil && !os.SameFile(before[path], now) {
			fmt.Fprintf(j.say, "coffer: %s was replaced while the program ran, which could change it from then on; look at it\n", terminal.Escape(path))
		}
	}
}
