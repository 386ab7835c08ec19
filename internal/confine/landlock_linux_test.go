package confine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// An attempt is something to do in a directory that has in/, other/ and file,
// all writable, and out/, which is not. want is the error under Landlock; the
// control, in another such directory without Landlock, must succeed.
type attempt struct {
	name string
	abi  int // from which on Landlock gives this answer
	want unix.Errno
	do   func(dir string) error
}

var attempts = []attempt{
	{"create inside", 1, 0, func(d string) error { return os.WriteFile(d+"/in/new", nil, 0o600) }},
	{"overwrite inside", 1, 0, func(d string) error { return os.WriteFile(d+"/in/a", nil, 0o600) }},
	{"make directory inside", 1, 0, func(d string) error { return os.Mkdir(d+"/in/dir", 0o700) }},
	{"make socket inside", 1, 0, func(d string) error { return unix.Mknod(d+"/in/sock", unix.S_IFSOCK|0o600, 0) }},
	{"write the file", 1, 0, func(d string) error { return os.WriteFile(d+"/file", nil, 0o600) }},
	{"truncate the file", 1, 0, func(d string) error { return os.Truncate(d+"/file", 0) }},
	{"rename between directories", 2, 0, func(d string) error { return os.Rename(d+"/in/b", d+"/other/b") }},
	{"link between directories", 2, 0, func(d string) error { return os.Link(d+"/in/c", d+"/other/c") }},
	{"unlink inside", 1, 0, func(d string) error { return os.Remove(d + "/in/d") }},
	{"read outside", 1, 0, func(d string) error { _, err := os.ReadFile(d + "/out/a"); return err }},
	{"list outside", 1, 0, func(d string) error { _, err := os.ReadDir(d + "/out"); return err }},
	{"list root", 1, 0, func(string) error { _, err := os.ReadDir("/"); return err }},
	{"execute", 1, 0, func(string) error { return exec.Command("/bin/true").Run() }},
	{"control a device in /dev", 1, 0, controlDevice},

	{"create outside", 1, unix.EACCES, func(d string) error { return os.WriteFile(d+"/out/new", nil, 0o600) }},
	{"create beside", 1, unix.EACCES, func(d string) error { return os.WriteFile(d+"/new", nil, 0o600) }},
	{"write outside", 1, unix.EACCES, func(d string) error { return appendTo(d + "/out/a") }},
	{"write by symlink", 1, unix.EACCES, func(d string) error { return appendTo(d + "/in/link") }},
	{"write by /proc/self/fd", 1, unix.EACCES, reopen},
	{"truncate outside", 3, unix.EACCES, func(d string) error { return os.Truncate(d+"/out/a", 0) }},
	{"make directory outside", 1, unix.EACCES, func(d string) error { return os.Mkdir(d+"/out/dir", 0o700) }},
	{"make symlink outside", 1, unix.EACCES, func(d string) error { return os.Symlink("x", d+"/out/sym") }},
	{"link in from outside", 2, unix.EXDEV, func(d string) error { return os.Link(d+"/out/a", d+"/in/hard") }},
	{"rename out", 1, unix.EACCES, func(d string) error { return os.Rename(d+"/in/e", d+"/out/e") }},
	{"rename in", 1, unix.EACCES, func(d string) error { return os.Rename(d+"/out/b", d+"/in/stolen") }},
	{"rename the directory itself", 1, unix.EACCES, func(d string) error { return os.Rename(d+"/in", d+"/moved") }},
	{"unlink outside", 1, unix.EACCES, func(d string) error { return os.Remove(d + "/out/c") }},
	{"unlink the file", 1, unix.EACCES, func(d string) error { return os.Remove(d + "/file") }},
}

func appendTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// reopen asks for a file that was opened to read once more, to write.
func reopen(d string) error {
	fd, err := unix.Open(d+"/out/a", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return appendTo(filepath.Join("/proc/thread-self/fd", strconv.Itoa(fd)))
}

// controlDevice needs ioctl on a device that was opened under Landlock, though
// not to write.
func controlDevice(string) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
	return err
}

func prepare(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := []string{"in/a", "in/b", "in/c", "in/d", "in/e", "other/a", "out/a", "out/b", "out/c", "file"}
	for _, name := range files {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(name), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir+"/out/a", dir+"/in/link"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// needLandlock skips a test on a kernel whose Landlock is older than a version, or not there.
func needLandlock(t *testing.T, version int) {
	t.Helper()
	if now := LandlockABI(); now < version {
		t.Skipf("this kernel has version %d of Landlock, the test needs %d", now, version)
	}
}

func TestLandlock(t *testing.T) {
	needLandlock(t, 1)
	t.Logf("ABI %d", LandlockABI())
	confined, free := prepare(t), prepare(t)
	got := map[string]error{}
	err := onThread(func() error {
		if err := NoNewPrivs(); err != nil {
			return err
		}
		held, err := os.OpenFile(confined+"/out/a", os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer held.Close()
		if err := Landlock(LandlockRules{Write: []string{confined + "/in", confined + "/other", confined + "/file", "/dev/null"}}); err != nil {
			return err
		}
		for _, a := range attempts {
			got[a.name] = a.do(confined)
		}
		_, err = held.WriteString("still mine")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attempts {
		if a.abi > LandlockABI() {
			continue
		}
		if err := a.do(free); err != nil {
			t.Errorf("%s: without Landlock: %v", a.name, err)
			continue
		}
		if err := got[a.name]; a.want == 0 && err != nil || a.want != 0 && !errors.Is(err, a.want) {
			t.Errorf("%s: %v, want %v", a.name, err, a.want)
		}
	}
}

// TestLandlockDevice: a device file outside /dev cannot be controlled.
func TestLandlockDevice(t *testing.T) {
	needLandlock(t, 5) // which knows of ioctl
	null := filepath.Join(t.TempDir(), "null")
	if err := unix.Mknod(null, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err == unix.EPERM {
		t.Skip("only root can make a device")
	} else if err != nil {
		t.Fatal(err)
	}
	control := func() error {
		fd, err := unix.Open(null, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	}
	if err := control(); err == unix.EACCES {
		t.Skip("devices do not work in the directory for temporary files")
	} else if err != unix.ENOTTY {
		t.Fatalf("without Landlock: %v", err)
	}
	err := onThread(func() error {
		if err := NoNewPrivs(); err != nil {
			return err
		}
		if err := Landlock(LandlockRules{}); err != nil {
			return err
		}
		return control()
	})
	if !errors.Is(err, unix.EACCES) {
		t.Errorf("%v, want EACCES", err)
	}
}

// TestLandlockPrivilege: with CAP_SYS_ADMIN it needs no no_new_privs, without
// it the kernel's refusal is an error.
func TestLandlockPrivilege(t *testing.T) {
	needLandlock(t, 1)
	if s, _ := threadStatus(); s["NoNewPrivs"] == "1" {
		t.Skip("has no_new_privs")
	}
	if hasCap(t, unix.CAP_SYS_ADMIN) {
		if err := onThread(func() error { return Landlock(LandlockRules{}) }); err != nil {
			t.Error(err)
		}
	}
	err := onThread(func() error {
		if err := setCapabilities(0); err != nil { // if there are any
			t.Error(err)
		}
		return Landlock(LandlockRules{})
	})
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("%v, want EPERM", err)
	}
}

// TestLandlockMissingPath: an error, and the thread is as free as before.
func TestLandlockMissingPath(t *testing.T) {
	needLandlock(t, 1)
	dir := t.TempDir()
	err := onThread(func() error {
		if err := NoNewPrivs(); err != nil {
			return err
		}
		err := Landlock(LandlockRules{Write: []string{"/dev", dir + "/missing"}})
		if werr := os.WriteFile(dir+"/free", nil, 0o600); werr != nil {
			t.Errorf("after the error: %v", werr)
		}
		return err
	})
	if !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v, want ENOENT", err)
	}
}

// TestLandlockRights: never to read, execute or connect, on no kernel.
func TestLandlockRights(t *testing.T) {
	want := map[int]uint64{1: 0x1ff2, 2: 0x3ff2, 3: 0x7ff2, 4: 0x7ff2, 5: 0xfff2, 7: 0xfff2, 20: 0xfff2}
	for abi, rights := range want {
		if got := landlockRights(abi); got != rights {
			t.Errorf("ABI %d: %#x, want %#x", abi, got, rights)
		}
	}
}
