package safepath

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
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
	tree, victim := t.TempDir()+"/tree", t.TempDir()
	must(t, os.MkdirAll(tree+"/a/tmpfs", 0o700), os.Mkdir(tree+"/a/bind", 0o700), os.WriteFile(tree+"/a/file", nil, 0o600),
		os.WriteFile(tree+"/other", nil, 0o600), os.WriteFile(victim+"/precious", nil, 0o600), os.Chmod(victim, 0o500))
	t.Cleanup(func() { _ = os.Chmod(victim, 0o700) })
	mount(t, "tmpfs", tree+"/a/tmpfs", "tmpfs", 0, "")
	must(t, os.WriteFile(tree+"/a/tmpfs/precious", nil, 0o600))
	mount(t, victim+"/precious", tree+"/a/file", "", unix.MS_BIND, "")
	precious := []string{tree + "/a/tmpfs/precious", victim + "/precious"}
	mount(t, victim, tree+"/a/bind", "", unix.MS_BIND, "")
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
