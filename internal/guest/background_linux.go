package guest

import (
	"bytes"
	"net"
	"os"
	"strconv"

	"github.com/cofferhq/coffer/internal/wire"
)

// background serves OpBackground. A program in the background is a child of the first process that
// nobody inside or outside waits for: the kernel gives it the orphans.
func (a *agent) background(s net.Conn) {
	defer wire.HangUp(s)
	// One that starts or ends meanwhile is awaited before or after the look.
	before := a.reaper.awaited()
	var found wire.Background
	for _, pid := range numbered("/proc", maxProcesses) {
		n, err := strconv.Atoi(pid)
		if err != nil || before[n] || !orphan("/proc/"+pid) || a.reaper.awaited()[n] {
			continue
		}
		if found.Count++; len(found.Names) < wire.MaxNames {
			found.Names = append(found.Names, command("/proc/"+pid))
		}
	}
	_ = wire.WriteMessage(s, wire.Event{Background: &found})
}

// orphan says whether a living process is a child of this one.
func orphan(dir string) bool {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return false
	}
	// The state and the parent follow the name, which is in brackets and may hold any byte.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > 1 && string(fields[0]) != "Z" && string(fields[1]) == strconv.Itoa(os.Getpid())
}

// awaited are the processes whose end somebody waits for.
func (r *reaper) awaited() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[int]bool, len(r.waiting))
	for pid := range r.waiting {
		all[pid] = true
	}
	return all
}
