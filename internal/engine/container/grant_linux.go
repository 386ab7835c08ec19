package container

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/cofferhq/coffer/internal/guest/birth"
)

// grant has the helpers write the maps of a process that waits for them.
func grant(i birth.IDs, pid int) error {
	var both sync.WaitGroup
	var failed [2]error
	for n, job := range []struct {
		program string
		maps    []syscall.SysProcIDMap
	}{{"newuidmap", i.UIDs}, {"newgidmap", i.GIDs}} {
		both.Go(func() {
			path, err := birth.HelperPath(job.program)
			if err != nil {
				failed[n] = err
				return
			}
			args := []string{strconv.Itoa(pid)}
			for _, m := range job.maps {
				args = append(args, strconv.Itoa(m.ContainerID), strconv.Itoa(m.HostID), strconv.Itoa(m.Size))
			}
			if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
				failed[n] = fmt.Errorf("%s: %w: %s", job.program, err, strings.TrimSpace(string(out)))
			}
		})
	}
	both.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
