package sandbox

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
}

func TestFullDisk(t *testing.T) {
	if !testbed.Apart(t) {
		return
	}
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=64k,mode=700")
	s, err := Open(dir)
	must(t, err)
	web := create(t, s, stay("web"))
	fill, err := os.Create(dir + "/.fill")
	must(t, err)
	defer fill.Close()
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	_, _, err = s.Create(throwAway())
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(ui.HintOf(err), "free some space") {
		t.Errorf("create: %v", err)
	}
	web.Command = []string{strings.Repeat("x", 8192)}
	if err := web.Save(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("save: %v", err)
	}
	if got, err := s.Find("web"); err != nil || len(got.Command) != 0 {
		t.Errorf("after a save that failed: %v, %v", got, err)
	}
	must(t, os.Remove(dir+"/.fill"))
	only(t, s, web.ID) // nothing half made
	must(t, web.Remove(nil))
}

func TestReadOnlyFileSystem(t *testing.T) {
	if !testbed.Apart(t) {
		return
	}
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "mode=700")
	s, err := Open(dir)
	must(t, err)
	web := create(t, s, stay("web"))
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "mode=700"))
	if sb, err := s.Find("web"); err != nil || sb.Running() {
		t.Error(err)
	}
	must(t, s.Sweep(nil))
	if _, _, err := s.Create(throwAway()); !errors.Is(err, unix.EROFS) || ui.HintOf(err) == "" {
		t.Error(err)
	}
	if err := web.Remove(nil); !errors.Is(err, unix.EROFS) {
		t.Error(err)
	}
}
