package guest

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"time"
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
	offered  offers

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
	if ready.Send(conn) != nil || err != nil {
		return 125
	}
	if HandFiles(conn, a.network.sockets) != nil {
		return 125
	}
	go a.reaper.run()
	go a.serveInside(a.inside)
	a.spareThreads()
	a.serve(conn)
	return 0
}

// Immune makes this process ignore the signals that would end it. One without handler
// cannot hurt a first process, but Go installs handlers for all.
//
// Most are ignored by the kernel, and behind the back of Go's signal package: to tell
// that takes a third of a millisecond. Programs do not inherit it, because Go takes its
// handlers back when it forks. The three that Go leaves to C libraries they inherit; by
// default those would end a first process if they came while its main thread happens to
// block them, and C libraries install handlers when they use them.
//
// Two signals Go leaves ignored if it finds them so, as below nohup. With keep programs inherit
// that.
func Immune(keep bool) {
	for _, n := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(n) && !keep {
			signal.Notify(make(chan os.Signal, 1), n)
		}
	}
	var ignore [64]byte // struct sigaction, as the kernel has it: the handler comes first
	ignore[0] = 1       // SIG_IGN, on the little-endian machines that we know
	for _, n := range deadly {
		if keep && signal.Ignored(n) {
			continue
		}
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0)
	}
	// Nobody asks to hear of dead children: the reaper waits for them in the kernel.
	var standard [64]byte
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&standard)), 0, 8, 0, 0)
	// These Go needs, for faults of our own. It ignores those that are sent.
	signal.Ignore(unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS)
}

// deadly are the signals that end a process of Go, and never come from a fault.
var deadly = [...]unix.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE,
	unix.SIGALRM, unix.SIGTERM, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGPROF, unix.SIGIO,
	unix.SIGPWR, 32, 33, 34,
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
	a := &agent{reaper: newReaper()}
	// Nobody inside may look into this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("close this process to others: %w", err)
	}
	// Descriptors that the user's shell left open to us stay here. (Linux 5.11)
	if err := unix.CloseRange(control+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close inherited descriptors: %w", err)
	}
	// Nothing needs to be known for it, and most of its time it waits in the kernel: it
	// goes side by side with all that follows.
	connected := connect(slices.Contains(os.Args[1:], networkArg))
	if err := a.boot.Receive(conn); err != nil {
		return nil, fmt.Errorf("read the boot message: %w", err)
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
	if a.launcher, err = newLauncher(a.boot.confinement(false)); err != nil {
		return nil, err
	}
	a.network, err = connected()
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

// serveInside speaks with programs of the sandbox: sudo is one. They may ask for nothing
// that they could not ask the user's own shell for, so no further check is needed.
func (a *agent) serveInside(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will come back
			continue
		}
		go a.handleInside(c)
	}
}

// listenInside opens the socket that serveInside serves.
func listenInside() (net.Listener, error) {
	l, err := net.Listen("unix", Socket)
	if err != nil {
		return nil, fmt.Errorf("listen inside: %w", err)
	}
	// Whatever id a program inside has, it may ask.
	return l, os.Chmod(Socket, 0o666)
}

// spareThreads makes the threads that the agent may need later, before a program
// inside uses up the sandbox's processes: Go cannot go on without a thread it wants.
// With a low limit that must be now; otherwise it can wait until a short run is over.
func (a *agent) spareThreads() {
	const spare = 8
	if a.boot.FewProcesses {
		makeThreads(spare)
		return
	}
	time.AfterFunc(200*time.Millisecond, func() { makeThreads(spare) })
}

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
