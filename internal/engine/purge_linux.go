package engine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/safepath"
)

// PurgeName is the name under which the binary removes a sandbox's files from within
// its ids.
const PurgeName = "coffer-purge"

// Purge removes a sandbox's tree. Files of other ids of the sandbox can only be
// removed from a user namespace that has these ids.
func Purge(tree string) error {
	err := safepath.RemoveTree(tree)
	if err == nil {
		return nil
	}
	who := guest.Whoever()
	if !who.Helper {
		return err
	}
	wait, tell, perr := os.Pipe()
	if perr != nil {
		return perr
	}
	defer tell.Close()
	cmd := exec.Command("/proc/self/exe", tree)
	cmd.Args[0] = PurgeName
	cmd.Stdin = wait
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, AmbientCaps: guest.Capabilities(), Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stderr = &said
	perr = cmd.Start()
	wait.Close()
	if perr != nil {
		return err
	}
	if perr := guest.Grant(who, cmd.Process.Pid); perr != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return fmt.Errorf("%w (and %w)", err, perr)
	}
	tell.Close()
	if cmd.Wait() != nil {
		return fmt.Errorf("%w (%s)", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// PurgeMain is Purge's other half, inside the namespace.
func PurgeMain() int {
	// Standard input ends when the ids are there.
	os.Stdin.Read(make([]byte, 1))
	if len(os.Args) != 2 {
		return 2
	}
	if err := safepath.RemoveTree(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
