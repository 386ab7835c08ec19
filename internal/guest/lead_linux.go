package guest

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"

	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// A program on a terminal has a leader: a process between it and the agent that is the
// first of the terminal's session, as a shell is outside, and has nothing else to do than
// to notice that the program stops. Without one, nobody in the session could have it go
// on: the kernel then calls its group orphaned, and Ctrl-Z does nothing.
//
// The leader is this binary under another name. It is confined as the program is, and
// what it says is believed no more than the program would be.

// news is what a leader tells the agent.
type news struct {
	Failure *wire.Failure       `json:"failure,omitempty"`
	Started int                 `json:"started,omitempty"` // the program's process, and group
	Stopped bool                `json:"stopped,omitempty"`
	Ended   *syscall.WaitStatus `json:"ended,omitempty"`
}

// leader is the process that leads a session.
type leader struct {
	line *os.File // to the agent

	mu      sync.Mutex
	program int // 0 until it runs
	ended   map[int]syscall.WaitStatus
	over    chan syscall.WaitStatus
}

// LeadMain is the leader's life. Its argument is the descriptor of its line to the agent,
// on which it is told what to run.
func LeadMain() int {
	if len(os.Args) != 2 {
		return 125
	}
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return 125
	}
	unix.CloseOnExec(fd)
	l := &leader{line: os.NewFile(uintptr(fd), "line"), ended: map[int]syscall.WaitStatus{}, over: make(chan syscall.WaitStatus, 1)}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGUSR1, unix.SIGUSR2)
	if err := l.start(); err != nil {
		var f *wire.Failure
		if !errors.As(err, &f) {
			f = &wire.Failure{Code: 125, Message: err.Error()}
		}
		l.tell(news{Failure: f})
		return f.Code
	}
	for {
		select {
		case s := <-signals:
			l.pass(s.(syscall.Signal))
		case status := <-l.over:
			l.tell(news{Ended: &status})
			return status.ExitStatus() & 0xff
		}
	}
}

func (l *leader) tell(n news) { _ = wire.WriteMessage(l.line, n) }

// pass hands on what was sent to the leader and is meant for the program: by somebody
// inside, by a terminal that is hung up, or by keys that were pressed too early.
func (l *leader) pass(s syscall.Signal) {
	_ = unix.Kill(-l.program, s)
	if s == unix.SIGHUP {
		_ = unix.Kill(-l.program, unix.SIGCONT) // or it does not hear it
	}
}

// start starts the program, in the foreground of the terminal from its first instruction.
//
// Its process asks for the foreground before it becomes the program. As it is not there
// yet, this stops it; then [leader.admit] gives it the foreground and has it go on. A
// leader in the foreground could give it later, but the program would already run; and a
// program that may take it by itself has to ignore or block SIGTTOU, for good.
func (l *leader) start() error {
	// All that happens while one thread waits for its child to become the program: so
	// there must be another one to run on, and no collector that waits for both.
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 62)
	order, err := wire.ReadRequest(l.line)
	if err != nil || order.Exec == nil || len(order.Exec.Argv) == 0 {
		return errors.New("the leader of a session is not for calling by hand")
	}
	ready := make(chan struct{})
	go l.collect(ready)
	<-ready
	dir, env, program := order.Exec.Dir, os.Environ(), 0
	err = spawn(texts(order.Exec.Argv), env, dir, func(path string, argv []string) (err error) {
		program, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
			Dir: dir, Env: env, Files: []uintptr{0, 1, 2},
			Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0},
		})
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(news{Started: program}) // before anything else is told of it
	l.program = program
	if status, ok := l.ended[program]; ok {
		l.over <- status
	}
	return nil
}

// collect hears of children for ever.
func (l *leader) collect(ready chan<- struct{}) {
	// The leader is in the background when it gives the foreground to somebody. This
	// thread may; no program is started from it.
	runtime.LockOSThread()
	set := unix.Sigset_t{}
	set.Val[0] = 1 << (unix.SIGTTOU - 1)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	news := make(chan os.Signal, 1)
	signal.Notify(news, unix.SIGCHLD)
	close(ready)
	for range news {
		eachChild(l.child)
	}
}

// child takes the news of one.
func (l *leader) child(pid int, status syscall.WaitStatus) {
	if status.Stopped() {
		if !l.runs() {
			l.admit(pid)
			return
		}
		// As a shell does: when it goes on, it has the terminal.
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pid)
		l.tell(news{Stopped: true})
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.program == pid {
		l.over <- status
	} else if l.program == 0 {
		l.ended[pid] = status
	}
}

func (l *leader) runs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.program != 0
}

// admit gives the foreground to a process that is about to become the program.
func (l *leader) admit(pid int) {
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pid)
	_ = unix.Kill(pid, unix.SIGCONT)
}
