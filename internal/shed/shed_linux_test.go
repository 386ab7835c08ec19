package shed

import (
	"os"
	"strings"
	"testing"
)

// What was let go of does not count any more, and is there when it is needed.
func TestProgram(t *testing.T) {
	before := resident(t)
	Program()
	if after := resident(t); after >= before {
		t.Errorf("%d pages of files before, %d after", before, after)
	}
}

// resident is how many pages of files are at hand.
func resident(t *testing.T) (pages int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Fields(string(b))[2] {
		pages = pages*10 + int(c-'0')
	}
	return pages
}

func TestShared(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-00c88000 r-xp 00000000 fe:00 1234   /usr/local/bin/coffer\n":  true,
		"00c88000-01560000 r--p 00888000 fe:00 1234   /a path with blanks\n":    true,
		"01560000-015e7000 rw-p 01160000 fe:00 1234   /usr/local/bin/coffer\n":  false,
		"c000000000-c000400000 rw-p 00000000 00:00 0 \n":                        false,
		"7ffd5a5f6000-7ffd5a5fa000 r--p 00000000 00:00 0          [vvar]\n":     false,
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n": false,
		"": false,
	} {
		if start, size, ok := shared(line); ok != want || ok && (start < 0x400000 || size == 0) {
			t.Errorf("%q: %x, %x, %v", line, start, size, ok)
		}
	}
}
