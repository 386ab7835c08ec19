package rootfs

import (
	"os"
	"strings"
	"testing"
)

// TestLimitedMeminfo: what programs see adds up, whatever the host has.
func TestLimitedMeminfo(t *testing.T) {
	const host = "MemTotal:       8000000 kB\nMemFree:          20000 kB\nMemAvailable:   4000000 kB\nCached:         3000000 kB\n" +
		"SwapTotal:       999 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n"
	const want = "MemTotal:        1048576 kB\nMemFree:           20000 kB\nMemAvailable:    1048576 kB\nCached:                0 kB\n" +
		"SwapTotal:             0 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n"
	if got := limitedMeminfo(host, 1<<30); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := limitedMeminfo(host, 1<<40); !strings.HasPrefix(got, "MemTotal:        8000000 kB\n") {
		t.Errorf("the limit is more than there is: got\n%s", got)
	}
	here, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	if got := limitedMeminfo(string(here), 1<<20); strings.Count(got, "\n") != strings.Count(string(here), "\n") || !strings.HasPrefix(got, "MemTotal:           1024 kB\n") {
		t.Errorf("of this machine: got\n%s", got)
	}
}
