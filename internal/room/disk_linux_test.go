package room

import (
	"os"
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
