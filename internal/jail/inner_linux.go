package jail

import (
	"errors"
	"math"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// Name is the name under which the binary is the first process of a jail: the parent of the
// program in its process namespace.
const Name = "coffer-jail"

// An order tells the first process what to build and to run.
type order struct {
	Root     *rootfs.Plan
	Thread   *confine.Thread // but for places
	Read     []string
	Loopback bool // a network of its own, with nothing but that
	Link     bool // and with a link to the gateway
	Ruleless bool // as if there were no packet rules

	Path string
	Argv []string
	Env  []string
	Dir  string
}

// built is the answer. Link's sockets follow it.
type built struct {
	guest.Ready
	Refused bool // the host lets nobody use the namespaces
	NoNet   bool // it was the network
	Proc    bool // /proc is the jail's own
}

// word is what the two sides say from then on.
type word struct {
	Failure *wire.Failure       `json:",omitempty"` // the program was not started
	Started bool                `json:",omitempty"`
	Status  *syscall.WaitStatus `json:",omitempty"` // it stopped or ended

	Start  bool           `json:",omitempty"`
	Signal syscall.Signal `json:",omitempty"`
}

// Main is the life of a jail's first process.
func Main() int {
	guest.Immune(true)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	conn, err := guest.Stream()
	if err != nil {
		return 125
	}
	mask := unix.Umask(0o022)
	var o order
	if unix.CloseRange(4, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil || guest.ReadOrders(conn, &o) != nil {
		return 125
	}
	ready, sockets := o.build()
	if wire.WriteMessage(conn, ready) != nil || ready.Error != "" {
		return 125
	}
	if guest.HandFiles(conn, sockets) != nil {
		return 125
	}
	o.run(conn, mask)
	return 0
}

// build builds the jail around this process, but for what only the program gives up.
func (o *order) build() (ready built, sockets []*os.File) {
	// Some systems let everybody make namespaces and nobody use them.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return built{Ready: guest.Ready{Error: "make mounts private: " + err.Error()}, Refused: true}, nil
	}
	if o.Loopback {
		kind, files, err := guest.MakeNetwork(o.Link, o.Ruleless)
		if err != nil {
			return built{Ready: guest.Ready{Error: err.Error()}, NoNet: true}, nil
		}
		ready.Link, ready.Sockets, sockets = kind, len(files), files
	}
	if _, err := rootfs.Assemble(o.Root, nil); err != nil {
		return built{Ready: guest.Ready{Error: "build the jail: " + err.Error()}}, nil
	}
	self, err := os.Readlink("/proc/self")
	ready.Proc = err == nil && self == strconv.Itoa(os.Getpid())
	return ready, sockets
}

// run starts the program when it is told to, and says what becomes of it.
func (o *order) run(conn *net.UnixConn, mask int) {
	say := func(w word) { _ = wire.WriteMessage(conn, w) }
	confined := make(chan error)
	started := make(chan error)
	start := make(chan struct{})
	pid := 0
	go guest.OffMain(func() {
		confined <- o.confine(mask)
		<-start
		started <- launch(o.Path, o.Argv, func(path string, argv []string) (err error) {
			pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2}})
			return err
		})
		select {} // the thread is for nothing else
	})
	if err := <-confined; err != nil {
		say(word{Failure: &wire.Failure{Code: 125, Message: err.Error()}})
		return
	}
	say(word{}) // the walls stand
	var first word
	if wire.ReadMessage(conn, wire.MaxRequest, &first) != nil || !first.Start {
		return
	}
	close(start)
	if err := <-started; err != nil {
		var f *wire.Failure
		if !errors.As(err, &f) {
			f = &wire.Failure{Code: 125, Message: err.Error()}
		}
		say(word{Failure: f})
		return
	}
	say(word{Started: true})
	go obey(conn, pid)
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		if err != nil && err != syscall.EINTR {
			return
		}
		if err == nil && got == pid {
			say(word{Status: &status})
			if !status.Stopped() {
				return
			}
		}
	}
}

// confine confines the calling thread.
func (o *order) confine(mask int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // the umask is the program's, not ours
		return os.NewSyscallError("unshare", err)
	}
	unix.Umask(mask)
	o.Thread.Landlock.Write, o.Thread.Landlock.Read = o.Root.Writable, o.Read
	if err := confine.Mark(); err != nil { // the whole process: limits are not a thread's own
		return err
	}
	return o.Thread.Confine()
}

// obey does what it is told while the program runs, until nobody is there to tell.
func obey(conn *net.UnixConn, pid int) {
	for {
		var w word
		if wire.ReadMessage(conn, wire.MaxRequest, &w) != nil {
			os.Exit(125) // and all end with us
		}
		if w.Signal > 0 {
			_ = unix.Kill(pid, w.Signal)
		}
	}
}
