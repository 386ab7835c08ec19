package limits

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cpuPeriod is the kernel's default, in microseconds: short enough that a
// throttled program still feels responsive.
const cpuPeriod = 100_000

// setting is one control file to write. Optional ones are knobs a kernel may
// not have and without which the limit still holds.
type setting struct {
	file, value string
	optional    bool
}

// settings lists what enforces controller's part of l in a group of version v2
// or v1, in the order the kernel wants it.
func settings(v2 bool, controller string, l Limits, has func(file string) bool) []setting {
	quota := strconv.FormatInt(int64(l.CPUs*cpuPeriod+0.5), 10)
	memory := strconv.FormatInt(l.Memory, 10)
	// v1 counts the buffers of sockets apart, if at all: an eighth more.
	buffers := setting{file: "memory.kmem.tcp.limit_in_bytes", value: strconv.FormatInt(l.Memory/8, 10), optional: true}
	switch {
	case controller == "pids":
		return []setting{{file: "pids.max", value: strconv.Itoa(l.Pids)}}
	case controller == "cpu" && v2:
		return []setting{{file: "cpu.max", value: quota + " " + strconv.Itoa(cpuPeriod)}}
	case controller == "cpu":
		return []setting{
			{file: "cpu.cfs_period_us", value: strconv.Itoa(cpuPeriod)},
			{file: "cpu.cfs_quota_us", value: quota},
		}
	case controller == "memory" && v2:
		return []setting{
			{file: "memory.max", value: memory},
			{file: "memory.swap.max", value: "0", optional: true},
			{file: "memory.oom.group", value: "0", optional: true}, // see the package comment
		}
	case controller == "memory" && has("memory.memsw.limit_in_bytes"):
		return []setting{
			{file: "memory.limit_in_bytes", value: memory}, // must not exceed memsw, so it comes first
			{file: "memory.memsw.limit_in_bytes", value: memory},
			buffers,
		}
	case controller == "memory":
		return []setting{
			{file: "memory.limit_in_bytes", value: memory},
			{file: "memory.swappiness", value: "0"},
			buffers,
		}
	}
	return nil
}

// oomKilled reports whether the kernel killed something in the group for lack
// of memory. The counter is raised before the victim dies, so whoever has
// waited for the victim sees it.
func oomKilled(dir string) bool {
	return keyed(dir, "memory.events", "oom_kill") > 0 || // v2
		keyed(dir, "memory.oom_control", "oom_kill") > 0 // v1, Linux 4.13
}

// keyed reads one value of a control file of "key value" lines.
func keyed(dir, file, key string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}
