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

// Neither another file system, nor the same one bound a second time, nor a file.
func TestRemoveTreeCrossesNoMount(t *testing.T) {
	if !testbed.Apart(t) {
		return
	}
	for _, without := range []bool{false, true} {
		noOpenat2.Store(without)
		defer noOpenat2.Store(false)
		tree, victim := t.TempDir()+"/tree", t.TempDir()
		must(t, os.MkdirAll(tree+"/a/tmpfs", 0o700), os.Mkdir(tree+"/a/bind", 0o700), os.WriteFile(tree+"/a/file", nil, 0o600),
			os.WriteFile(tree+"/other", nil, 0o600), os.WriteFile(victim+"/precious", nil, 0o600), os.Chmod(victim, 0o500))
		t.Cleanup(func() { _ = os.Chmod(victim, 0o700) })
		mount(t, "tmpfs", tree+"/a/tmpfs", "tmpfs", 0, "")
		must(t, os.WriteFile(tree+"/a/tmpfs/precious", nil, 0o600))
		mount(t, victim+"/precious", tree+"/a/file", "", unix.MS_BIND, "")
		precious := []string{tree + "/a/tmpfs/precious", victim + "/precious"}
		if !without { // without openat2 a bind mount cannot be told from a folder
			mount(t, victim, tree+"/a/bind", "", unix.MS_BIND, "")
		}
		err := RemoveTree(tree)
		var failed *TreeError
		if !errors.As(err, &failed) || !strings.HasPrefix(failed.Path, tree+"/a/") {
			t.Errorf("got %v", err)
		}
		for _, path := range precious {
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("deleted: %v", err)
			}
		}
		if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o500 {
			t.Errorf("the victim's mode: %v, %v", info, err)
		}
		if _, err := os.Lstat(tree + "/other"); err == nil {
			t.Error("stopped at a mount")
		}
		for _, name := range []string{"tmpfs", "bind", "file"} {
			_ = unix.Unmount(tree+"/a/"+name, unix.MNT_DETACH)
		}
		gone(t, tree)
	}
}

func TestRemoveTreeWithoutOpenat2(t *testing.T) {
	noOpenat2.Store(true)
	defer noOpenat2.Store(false)
	t.Run("links", TestRemoveTreeFollowsNoLink)
	t.Run("no link", TestOpenDirTakesNoLink)
	t.Run("deep", TestRemoveTreeDeepAndWide)
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
