// Package testbed gives tests a built coffer, a place to work, and the users to work
// as: whoever runs the tests, and an ordinary user too when that is root.
package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Ordinary is the id of the unprivileged user that root's tests become. It needs no
// account.
const Ordinary = 64646

// A Bed is where one user's test runs.
type Bed struct {
	UID    int
	Coffer string // the binary
	Dir    string // everything below it belongs to the user
	Home   string
	Work   string // an empty directory to use as workspace
}

// Each runs a test once for every user there is.
func Each(t *testing.T, test func(t *testing.T, b *Bed)) {
	t.Helper()
	t.Run(fmt.Sprintf("uid=%d", os.Getuid()), func(t *testing.T) { test(t, New(t, os.Getuid())) })
	if os.Getuid() == 0 {
		t.Run(fmt.Sprintf("uid=%d", Ordinary), func(t *testing.T) { test(t, New(t, Ordinary)) })
	}
}

// New makes a bed for a user.
func New(t testing.TB, uid int) *Bed {
	t.Helper()
	// Not t.TempDir: its parent is closed to others, and its removal does not know
	// what a sandbox leaves behind when a test fails.
	dir, err := os.MkdirTemp("", "coffer-test-")
	if err != nil {
		t.Fatal(err)
	}
	b := &Bed{UID: uid, Coffer: Binary(t), Dir: dir, Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work")}
	t.Cleanup(func() {
		b.Command("rm", "--force", "--everywhere").Run()
		exec.Command("chmod", "-R", "u+rwX", dir).Run()
		os.RemoveAll(dir)
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{b.Home, b.Work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, b.Home, b.Work} {
		if err := os.Chown(d, uid, uid); err != nil && uid != os.Getuid() {
			t.Fatal(err)
		}
	}
	return b
}

// Command is a coffer command of the bed's user, in its workspace.
func (b *Bed) Command(args ...string) *exec.Cmd { return b.Program(b.Coffer, args...) }

// Program is any command of the bed's user, outside of every sandbox.
func (b *Bed) Program(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = b.Work
	c.Env = b.Env()
	if b.UID != os.Getuid() {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.UID), Gid: uint32(b.UID)}}
	}
	return c
}

// Env is the environment of the bed's user: nothing of the machine's own user.
func (b *Bed) Env() []string {
	return []string{
		"HOME=" + b.Home,
		"PATH=" + filepath.Dir(b.Coffer) + ":/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"TERM=xterm-256color",
	}
}

// shared names, in the environment of a test program that another one has started, the
// binary that the other one has built. prebuilt names the one that make test builds once
// for all test programs; each takes a copy that every user can run.
const (
	shared   = "COFFER_TESTBED_BINARY"
	prebuilt = "COFFER_TESTBED_PREBUILT"
)

// Shared is a variable for the environment of another test program, which has it use
// this one's binary.
func Shared(t testing.TB) string { return shared + "=" + Binary(t) }

// built is the directory of the binary, if there is one and it is ours.
var built string

var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(shared); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "coffer-build-")
	if err != nil {
		return "", err
	}
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "coffer")
	if from := os.Getenv(prebuilt); from != "" {
		return path, copyProgram(path, from)
	}
	return compile(path, quiet)
})

func copyProgram(to, from string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// quiet has a binary not say what takes long, which is more on some machines than on others, and at
// times: tests compare all that it says.
const quiet = "-X github.com/cofferhq/coffer/internal/ui.silent=yes"

func compile(path, ldflags string) (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", err
	}
	c := exec.Command("go", "build", "-o", path, "-ldflags="+ldflags, "./cmd/coffer")
	c.Dir = string(root[:len(root)-1])
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build coffer: %w\n%s", err, out)
	}
	return path, nil
}

// Variant is like Shared, for a coffer of its own that is built with flags for the linker.
// In the other test program it is the binary that is there.
func Variant(t testing.TB, ldflags string) string {
	t.Helper()
	path := Binary(t)
	if os.Getenv(shared) == "" {
		path = another(t, "variant", quiet+" "+ldflags)
	}
	return shared + "=" + path
}

// Released builds coffer as users have it, which says what takes long.
func Released(t testing.TB) string { return another(t, "released", "") }

// another builds one more binary, beside the usual one.
func another(t testing.TB, name, ldflags string) string {
	t.Helper()
	path, err := compile(filepath.Join(filepath.Dir(Binary(t)), name, "coffer"), ldflags)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Binary builds coffer once per test program. It stays until Main ends.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main is for TestMain: it runs the tests and removes the binary.
func Main(m *testing.M) {
	code := m.Run()
	Clean()
	os.Exit(code)
}

// Clean removes the binary, for who cannot use Main.
func Clean() {
	if built != "" {
		os.RemoveAll(built)
	}
}
