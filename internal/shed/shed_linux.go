package shed

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Program lets go of the pages of the program's file that nobody writes to.
func Program() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return // there is nothing that has to be done
	}
	for line := range strings.Lines(string(maps)) {
		if start, size, ok := shared(line); ok {
			_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, start, size, unix.MADV_DONTNEED)
		}
	}
}

// shared is where a mapping is, if it is of a file and cannot be written to.
//
//	00400000-00c88000 r-xp 00000000 fe:00 1234   /usr/local/bin/coffer
func shared(line string) (start, size uintptr, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 || strings.Contains(f[1], "w") || f[4] == "0" {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	a, err1 := strconv.ParseUint(from, 16, 64)
	b, err2 := strconv.ParseUint(to, 16, 64)
	return uintptr(a), uintptr(b - a), err1 == nil && err2 == nil && a < b
}
