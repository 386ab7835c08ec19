package shed

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Program lets go of the pages of files that nobody writes to, nor has written to: a program that is
// linked when it starts has pages of its own among those that can only be read from then on.
func Program() {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return // there is nothing that has to be done
	}
	var m mapping
	for line := range strings.Lines(string(maps)) {
		if next, ok := parse(line); ok {
			m = next
		} else if m.readOnly && strings.HasPrefix(line, "Anonymous:") && strings.Fields(line)[1] == "0" {
			_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, m.start, m.size, unix.MADV_DONTNEED)
		}
	}
}

type mapping struct {
	start, size uintptr
	readOnly    bool // and of a file
}

// parse reads the line that a mapping begins with.
//
//	00400000-00c88000 r-xp 00000000 fe:00 1234   /usr/local/bin/coffer
func parse(line string) (m mapping, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 {
		return m, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	a, err1 := strconv.ParseUint(from, 16, 64)
	b, err2 := strconv.ParseUint(to, 16, 64)
	return mapping{uintptr(a), uintptr(b - a), !strings.Contains(f[1], "w") && f[4] != "0"}, err1 == nil && err2 == nil && a < b
}
