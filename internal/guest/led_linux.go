package guest

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// led is a program on a terminal, and its leader, as the agent sees them.
type led struct {
	agent           *agent
	leader, program int
	over            <-chan syscall.WaitStatus // of the leader
	line            *os.File
}

// startLed starts a program with a leader. attr has the leader's descriptors, which are
// the program's too, and its environment and umask, which the program inherits.
func (a *agent) startLed(e *wire.Exec, attr *attributes) (*led, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	p := &led{agent: a}
	if p.line, err = ours(ends[0]); err != nil {
		unix.Close(ends[1])
		return nil, err
	}
	attr.Dir = "/"
	attr.Files = append(attr.Files, uintptr(ends[1]))
	if e.Root {
		p.leader, p.over, err = a.startRoot(nil, attr)
	} else {
		p.leader, p.over, err = a.launcher.fork(a.reaper, true, program, leadArgs(3), attr)
	}
	unix.Close(ends[1])
	if err == nil {
		err = p.hear(e)
	}
	if err != nil {
		p.line.Close()
		return nil, err
	}
	return p, nil
}

// leadArgs are those of a leader whose line is a descriptor.
func leadArgs(fd int) []string { return []string{LeadName, strconv.Itoa(fd)} }

// hear tells the leader what to run, and hears whether that could be done.
func (p *led) hear(e *wire.Exec) error {
	err := wire.WriteMessage(p.line, wire.Request{Op: wire.OpExec, Exec: &wire.Exec{Argv: e.Argv, Dir: e.Dir}})
	var n news
	if err == nil {
		err = wire.ReadMessage(p.line, wire.MaxReply, &n)
	}
	switch {
	case err == nil && n.Failure != nil:
		<-p.over
		return n.Failure
	case err != nil || n.Started <= 1:
		p.kill(unix.SIGKILL)
		<-p.over
		return errors.New("the program's terminal got no session")
	}
	p.program = n.Started
	return nil
}

// follow calls stopped whenever the program has stopped, and tells how it ended. A leader
// that ends without a word ends as the program.
func (p *led) follow(stopped func()) <-chan syscall.WaitStatus {
	end := make(chan syscall.WaitStatus, 1)
	go func() {
		defer p.line.Close()
		var told *syscall.WaitStatus
		for told == nil {
			var n news
			if wire.ReadMessage(p.line, wire.MaxReply, &n) != nil {
				break
			}
			if told = n.Ended; n.Stopped {
				stopped()
			}
		}
		status := <-p.over
		if told != nil {
			status = *told
		}
		end <- status
	}()
	return end
}

// signal sends to the program and what it started in its first group. The leader could
// have named any process; one of another session is not meant.
func (p *led) signal(s syscall.Signal) {
	_ = p.agent.reaper.with(p.leader, func() error {
		if session, err := unix.Getsid(p.program); err == nil && session == p.leader {
			_ = unix.Kill(-p.program, s)
		}
		return nil
	})
	if s == unix.SIGKILL {
		p.kill(s)
	}
}

// kill sends to the leader alone.
func (p *led) kill(s syscall.Signal) {
	_ = p.agent.reaper.with(p.leader, func() error { return unix.Kill(p.leader, s) })
}
