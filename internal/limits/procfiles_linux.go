package limits

import (
	"path/filepath"
	"strconv"
	"strings"
)

// The files of /proc that tell where we are among the cgroups. All three
// parsers skip what they do not understand: a line of a future kernel must not
// take the limits of this one away.

// mount is one line of mountinfo that concerns cgroups.
type mount struct {
	root    string   // the cgroup that is visible at point
	point   string   // where it is mounted
	unified bool     // cgroup v2
	options []string // of the superblock; on v1 they name the controllers
}

// parseMountinfo picks the cgroup mounts, in order, from /proc/self/mountinfo:
//
//	35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
func parseMountinfo(text string) []mount {
	var mounts []mount
	for line := range strings.Lines(text) {
		front, back, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		if !ok {
			continue
		}
		place, super := strings.Fields(front), strings.Fields(back)
		if len(place) < 6 || len(super) < 3 {
			continue
		}
		m := mount{root: unescape(place[3]), point: unescape(place[4]), options: strings.Split(super[2], ",")}
		switch super[0] {
		case "cgroup2":
			m.unified = true
		case "cgroup":
		default:
			continue
		}
		if filepath.IsAbs(m.root) && filepath.IsAbs(m.point) {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// unescape undoes the octal \040 by which the kernel writes blanks in paths.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// membership is the cgroup a process is in: one path for v2 ("" if the kernel
// has none), and one per v1 controller.
type membership struct {
	unified string
	v1      map[string]string
}

// parseCgroup reads /proc/self/cgroup:
//
//	4:cpu,cpuacct:/user.slice
//	0::/user.slice/session-1.scope
func parseCgroup(text string) membership {
	m := membership{v1: map[string]string{}}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !filepath.IsAbs(fields[2]) {
			continue
		}
		path := fields[2]
		if fields[0] == "0" && fields[1] == "" {
			m.unified = path
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			if controller != "" {
				m.v1[controller] = path
			}
		}
	}
	return m
}

// visible turns a cgroup path into a directory below a mount. It is false when
// the mount shows another part of the hierarchy: a container may see its own
// cgroup as "/../..", which is no path to follow.
func (m mount) visible(path string) (dir string, ok bool) {
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			return "", false
		}
	}
	below := path
	if m.root != "/" {
		rest, found := strings.CutPrefix(path, m.root)
		if !found || rest != "" && rest[0] != '/' {
			return "", false
		}
		below = rest
	}
	return filepath.Join(m.point, below), true
}

// parseParent reads the parent's pid from /proc/<pid>/stat, whose second field
// is a name in parentheses that may itself hold blanks and parentheses.
func parseParent(stat string) (pid int, ok bool) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, false
	}
	pid, err := strconv.Atoi(fields[1])
	return pid, err == nil
}
