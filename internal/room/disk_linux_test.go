package room

import (
	"os"
	"slices"
	"testing"
)

func TestLook(t *testing.T) {
	a, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if now, counts := a.Look(); !counts || now.Bytes == 0 {
		t.Errorf("%+v, %v", now, counts)
	}
	proc, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	if now, counts := proc.Look(); counts {
		t.Errorf("/proc has %+v left", now)
	}
	if a.Same(proc) || !a.Same(a) {
		t.Error("one is taken for another")
	}
	if _, err := Open(t.TempDir() + "/missing"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestBelow(t *testing.T) {
	const text = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
36 22 98:0 / /home/me/work rw,noatime shared:1 - ext4 /dev/vdb rw
37 36 98:1 / /home/me/work/a\040disk rw - ext4 /dev/vdc rw
38 36 98:2 / /home/me/work/deep/er rw - tmpfs tmpfs rw
39 22 98:3 / /home/me/work2 rw - tmpfs tmpfs rw

nonsense
`
	if got, want := below(text, "/home/me/work"), []string{"/home/me/work/a disk", "/home/me/work/deep/er"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := below(text, "/"); len(got) != 5 {
		t.Errorf("%q", got)
	}
	if got := Below("/"); !slices.Contains(got, "/proc") {
		t.Errorf("%q", got)
	}
}
