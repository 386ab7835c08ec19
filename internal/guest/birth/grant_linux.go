package birth

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Grant has the helpers write the maps of a process that waits for them.
func Grant(who IDs, pid int) error {
	if err := runHelper("newuidmap", pid, who.UIDs); err != nil {
		return err
	}
	return runHelper("newgidmap", pid, who.GIDs)
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

func runHelper(program string, pid int, maps []syscall.SysProcIDMap) error {
	path, err := HelperPath(program)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	cmd := exec.Command(path, strconv.Itoa(pid))
	for _, m := range maps {
		cmd.Args = append(cmd.Args, strconv.Itoa(m.ContainerID), strconv.Itoa(m.HostID), strconv.Itoa(m.Size))
	}
	cmd.Dir, cmd.Env = "/", []string{}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s (%w)", program, strings.TrimSpace(string(said)), err)
	}
	return nil
}
