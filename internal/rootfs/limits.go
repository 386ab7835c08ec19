package rootfs

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// Runtimes size themselves by what they find in /proc/meminfo and in the control group's
// files: the heap of a JVM or of node, the threads of Go. Without these files they take the
// whole machine for theirs and are killed at the limit. The files say what was asked for
// when the sandbox was made; they do not change and limit nothing.

const (
	cgroupDir   = "/sys/fs/cgroup"
	cgroupFiles = Own + "/cgroup"
)

// limits shows the sandbox's own limits.
func (p *Plan) limits(v View) {
	if v.Memory == 0 && v.CPUs == 0 {
		return
	}
	if host, err := os.ReadFile("/proc/meminfo"); err == nil && v.Memory > 0 && !v.Nesting {
		p.add(Step{Do: Replace, Target: "/proc/meminfo", Data: limitedMeminfo(string(host), v.Memory), Optional: true})
	}
	if !v.Nesting {
		// On a host with version 1, a JVM must not look for that.
		p.add(Step{Do: Replace, Target: "/proc/cgroups", Data: cgroupTable, Optional: true})
	}
	memory, swap, cpus := "max", "max", "max 100000"
	if v.Memory > 0 {
		memory, swap = strconv.FormatInt(v.Memory, 10), "0"
		// node reads these where the host has version 1.
		p.cgroupFile("memory/memory.limit_in_bytes", memory)
		p.cgroupFile("memory/memory.soft_limit_in_bytes", memory)
	}
	if v.CPUs > 0 {
		cpus = fmt.Sprintf("%d 100000", int64(v.CPUs*100_000+0.5))
	}
	p.cgroupFile("memory.max", memory)
	p.cgroupFile("memory.high", "max")
	p.cgroupFile("memory.swap.max", swap)
	p.cgroupFile("cpu.max", cpus)
	p.cgroupFile("cgroup.controllers", "cpuset cpu memory pids")
	p.add(Step{Do: Cgroup, Source: cgroupFiles, Target: cgroupDir})
}

func (p *Plan) cgroupFile(name, text string) {
	p.add(Step{Do: Write, Target: path.Join(cgroupFiles, name), Data: text + "\n"})
}

// cgroupTable is /proc/cgroups of a host that has only version 2.
const cgroupTable = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n" +
	"cpuset\t0\t1\t1\ncpu\t0\t1\t1\ncpuacct\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n"

// limitedMeminfo is /proc/meminfo of a machine with that much memory. What is free is at
// most what the host has free; caches and swap are nothing, and huge pages stay as they are.
func limitedMeminfo(host string, limit int64) string {
	var b strings.Builder
	for line := range strings.Lines(host) {
		name, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 || strings.HasPrefix(name, "Huge") {
			b.WriteString(line)
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		switch {
		case err != nil:
		case name == "MemTotal" || name == "MemFree" || name == "MemAvailable":
			n = min(n, limit>>10)
		default:
			n = 0
		}
		fmt.Fprintf(&b, "%-15s %8d kB\n", name+":", n)
	}
	return b.String()
}
