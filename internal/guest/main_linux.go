package guest

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"unsafe"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// control is the descriptor of the control stream.
const control = 3

// agent is the running guest agent.
type agent struct {
	boot     Boot
	launcher *launcher
	reaper   *reaper
	execs    sync.WaitGroup
	starting sync.RWMutex // held for reading while a program is started, by stop for good
	inside   net.Listener
	layers   *rootfs.Layers
	network  network
	session  *wire.Session // with the host
	offered  chan struct{} // slots for connections to sockets that lead to the host

	writable     sync.Mutex // guards what root needs, made when first asked for
	opened       bool
	rootLauncher *launcher
}

// Main is the first process's life. It returns an exit code.
func Main() int {
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&[]byte(Name + "\x00")[0])), 0, 0, 0)
	Immune(false)
	conn, err := Stream()
	if err != nil {
		return 125
	}
	a, err := start(conn)
	ready := Ready{}
	if err != nil {
		ready.Error = err.Error()
	} else {
		ready.Link, ready.Sockets = a.network.kind, len(a.network.sockets)
	}
	if wire.WriteMessage(conn, ready) != nil || err != nil {
		return 125
	}
	if HandFiles(conn, a.network.sockets) != nil {
		return 125
	}
	go a.reaper.run()
	// Programs of the sandbox may ask for nothing that they could not ask the user's own shell for, so no
	// further check is needed.
	go wire.Accept(a.inside, func(c net.Conn) { go a.handleInside(c) })
	makeThreads(8)
	a.serve(conn)
	return 0
}

// Immune makes this process ignore the signals that would end it. The kernel keeps those without a
// handler from a first process, but Go installs handlers for all. Programs do not inherit this:
// Go takes its handlers back when it forks. With keep they inherit what was ignored before, as by nohup.
func Immune(keep bool) {
	ignore := make(chan os.Signal, 1)
	for _, n := range deadly {
		if !keep || !signal.Ignored(n) {
			signal.Notify(ignore, n)
		}
	}
}

// deadly are the signals that end a process of Go when they are sent.
var deadly = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM,
	unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGPROF, unix.SIGIO, unix.SIGPWR, unix.SIGSTKFLT, unix.SIGSYS,
	unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV,
}

// Stream opens the control stream.
func Stream() (*net.UnixConn, error) {
	unix.CloseOnExec(control)
	f := os.NewFile(control, "control")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("the control stream is not a socket")
	}
	return u, nil
}

// start builds the sandbox, in the order that privileges require.
func start(conn *net.UnixConn) (*agent, error) {
	a := &agent{reaper: &reaper{waiting: map[int]awaited{}, born: make(chan struct{}, 1)}, offered: make(chan struct{}, maxOffered)}
	// Nobody inside may look into this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("close this process to others: %w", err)
	}
	// Descriptors that the user's shell left open to us stay here. (Linux 5.11)
	if err := unix.CloseRange(control+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close inherited descriptors: %w", err)
	}
	if err := ReadOrders(conn, &a.boot); err != nil {
		return nil, fmt.Errorf("read the boot message: %w", err)
	}
	var err error
	if a.network.kind, a.network.sockets, err = MakeNetwork(a.boot.Network, false); err != nil {
		return nil, err
	}
	handed, err := Receive(conn, a.boot.Handed)
	if err != nil {
		return nil, fmt.Errorf("receive mounts: %w", err)
	}
	unix.Umask(wire.UsualUmask) // programs have their own, see launcher.fork
	if a.layers, err = rootfs.Assemble(a.boot.Plan, handed); err != nil {
		return nil, err
	}
	if err := unix.Sethostname([]byte(a.boot.Hostname)); err != nil {
		return nil, fmt.Errorf("set the host name: %w", err)
	}
	if a.inside, err = listenInside(); err != nil {
		return nil, err
	}
	if a.layers.WasWritable() {
		if err := a.makeWritable(); err != nil {
			return nil, err
		}
	}
	for _, l := range a.boot.Rlimits {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return nil, fmt.Errorf("set resource limit %d: %w", l.Resource, err)
		}
	}
	a.launcher, err = newLauncher(&a.boot, false)
	return a, err
}

// serve speaks with the host until it hangs up.
func (a *agent) serve(conn *net.UnixConn) {
	session, err := wire.NewServer(conn)
	if err != nil {
		return
	}
	a.session = session
	for {
		s, err := session.Accept()
		if err != nil {
			return
		}
		go a.handle(s)
	}
}

// listenInside opens the socket for programs of the sandbox: sudo is one.
func listenInside() (net.Listener, error) {
	l, err := net.Listen("unix", Socket)
	if err != nil {
		return nil, fmt.Errorf("listen inside: %w", err)
	}
	// Whatever id a program inside has, it may ask.
	return l, os.Chmod(Socket, 0o666)
}

// makeThreads makes the threads that the agent may need later, before a program
// inside uses up the sandbox's processes: Go cannot go on without a thread it wants.
func makeThreads(n int) {
	var all sync.WaitGroup
	gate := make(chan struct{})
	for range n {
		all.Add(1)
		go func() {
			runtime.LockOSThread()
			all.Done()
			<-gate
			runtime.UnlockOSThread()
		}()
	}
	all.Wait()
	close(gate)
}
