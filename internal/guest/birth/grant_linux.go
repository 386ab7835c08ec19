package birth

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Grant has the helpers write the maps of a process that waits for them.
func Grant(who IDs, pid int) error {
	var both sync.WaitGroup
	var failed [2]error
	for n, job := range []struct {
		program string
		maps    []syscall.SysProcIDMap
	}{{"newuidmap", who.UIDs}, {"newgidmap", who.GIDs}} {
		both.Go(func() {
			if err := runHelper(job.program, pid, job.maps); err != nil {
				failed[n] = &failure{job.program, err}
			}
		})
	}
	both.Wait()
	if failed[0] != nil {
		return failed[0]
	}
	return failed[1]
}

// begin starts to grant a process its ids as soon as it is there: nothing else that is
// done for it takes as long.
func (p *Process) begin() {
	p.granted = sync.OnceValue(func() error { return Grant(p.IDs, p.PID) })
	go p.granted()
}

// Granted waits until the process has its ids, or cannot have them: the helpers know it by its
// number, and who waits for its end waits for them first.
func (p *Process) Granted() error {
	if p.granted == nil {
		return nil
	}
	return p.granted()
}

// runHelper is [os/exec.Cmd] without what that sets up, and waits for, before the program
// has its chance.
func runHelper(program string, pid int, maps []syscall.SysProcIDMap) error {
	path, err := HelperPath(program)
	if err != nil {
		return err
	}
	args := []string{program, strconv.Itoa(pid)}
	for _, m := range maps {
		args = append(args, strconv.Itoa(m.ContainerID), strconv.Itoa(m.HostID), strconv.Itoa(m.Size))
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	said, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	helper, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Dir: "/", Files: []uintptr{null.Fd(), say.Fd(), say.Fd()}})
	say.Close()
	if err != nil {
		return err
	}
	text := hear(said)
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(helper, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	if err == nil && status != 0 {
		err = errors.New(trim(text) + " (status " + strconv.Itoa(status.ExitStatus()) + ")")
	}
	return err
}

// hear reads what a helper says, until it has said all.
func hear(said *os.File) string {
	var all []byte
	for buf := make([]byte, 512); ; {
		n, err := said.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			return string(all)
		}
	}
}
