package guest

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Grant has the set-user-id helpers write the id maps of a process.
func Grant(who IDs, pid int) error {
	if err := runHelper("newuidmap", pid, who.UIDs); err != nil {
		return err
	}
	return runHelper("newgidmap", pid, who.GIDs)
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
