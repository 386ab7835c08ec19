package shed

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What was let go of does not count any more, and is there when it is needed.
func TestProgram(t *testing.T) {
	before := resident(t)
	Program()
	if after := resident(t); after >= before {
		t.Errorf("%d pages of files before, %d after", before, after)
	}
}

// What was written before it could only be read, as by a linker at the start, is in no file.
func TestWritten(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("file"); err != nil {
		t.Fatal(err)
	}
	page, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	copy(page, "mine")
	if err := unix.Mprotect(page, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if Program(); string(page) != "mine" {
		t.Errorf("what was written is %q", page)
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

func TestParse(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-00c88000 r-xp 00000000 fe:00 1234   /usr/local/bin/coffer\n":  true,
		"00c88000-01560000 r--p 00888000 fe:00 1234   /a path with blanks\n":    true,
		"01560000-015e7000 rw-p 01160000 fe:00 1234   /usr/local/bin/coffer\n":  false,
		"c000000000-c000400000 rw-p 00000000 00:00 0 \n":                        false,
		"7ffd5a5f6000-7ffd5a5fa000 r--p 00000000 00:00 0          [vvar]\n":     false,
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n": false,
		"VmFlags: rd mr mw me sd\n":                                             false,
		"Anonymous:             0 kB\n":                                         false,
		"":                                                                      false,
	} {
		if m, ok := parse(line); (ok && m.readOnly) != want || want && (m.start < 0x400000 || m.size == 0) {
			t.Errorf("%q: %+v, %v", line, m, ok)
		}
	}
}
