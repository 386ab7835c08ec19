package jail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// The test binary plays three parts: it tests; it is coffer, running a policy that a test
// wrote down, with what the test pretends about the host; and it is the program in the
// jail, which tries things and says how they went.
func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == Name:
		os.Exit(Main())
	case len(os.Args) > 2 && os.Args[1] == "jail-run":
		os.Exit(runWritten(os.Args[2]))
	case len(os.Args) > 2 && os.Args[1] == "jail-try":
		os.Exit(try(os.Args[2:]))
	}
	testbed.Main(m)
}

// written is a policy with what tests pretend.
type written struct {
	Policy
	ABI  int
	Bare bool

	// The network: no namespace, and what its rules are.
	Bound, Must, Every bool
	Ruleless           bool
	Open               []confine.PortRange
}

func runWritten(file string) int {
	b, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	var w written
	if err := json.Unmarshal(b, &w); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	w.Policy.abi, w.Policy.bare, w.Policy.bound = w.ABI, w.Bare, w.Bound
	w.Policy.ruleless = w.Ruleless
	w.Policy.Rules = &Rules{Connect: farEnd, Must: w.Must, Ports: func() ([]confine.PortRange, bool, error) { return w.Open, w.Every, nil }}
	code, err := Run(w.Policy, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 125
	}
	return code
}

// A stage is a user's home, a context and an outside, none of them in /tmp, because a jail
// has one of its own.
type stage struct {
	*testbed.Bed
	Out    string // things of the user's outside of the context
	Binary string // this program, in the context
}

func newStage(t *testing.T, b *testbed.Bed) *stage {
	t.Helper()
	base := "/var/lib"
	if os.Getuid() != 0 {
		home, err := os.UserHomeDir()
		if err != nil || safepath.Within(home, "/tmp") || safepath.Within(home, "/var/tmp") {
			t.Skip("your home is not there, or in /tmp or /var/tmp, of which a jail has its own: ", err)
		}
		base = home
	}
	dir, err := os.MkdirTemp(base, "coffer-jail-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.Dir, b.Home, b.Work = dir, filepath.Join(dir, "home"), filepath.Join(dir, "home", "work")
	s := &stage{Bed: b, Out: filepath.Join(dir, "home", "out"), Binary: filepath.Join(dir, "try")}
	for _, d := range []string{b.Home, b.Work, s.Out} {
		if err := errors.Join(os.Mkdir(d, 0o755), os.Chown(d, b.UID, b.UID)); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, self, s.Binary)
	return s
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// write makes a file of the user's.
func (s *stage) write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	for p := path; len(p) > len(s.Dir); p = filepath.Dir(p) {
		if err := os.Lchown(p, s.UID, s.UID); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// policy is the usual one, for a command.
func (s *stage) policy(argv ...string) written {
	return written{Policy: Policy{
		Context: s.Work, Dir: s.Work, Home: s.Home, Argv: argv, Env: s.Env(), Net: NetHost,
	}}
}

// in is a layer as a test asks for it.
func (w written) in(layer Layer) written {
	w.InPlace = layer == Landlock
	return w
}

// command is coffer running a policy, as the user.
func (s *stage) command(t *testing.T, w written) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(s.Dir, "policy-")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Chmod(0o644); err != nil {
		t.Fatal(err)
	}
	return s.Program(s.Binary, "jail-run", f.Name())
}

// A result is how a command went.
type result struct {
	code     int
	out, err string
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %sstderr: %s", r.code, r.out, r.err)
}

func finish(t *testing.T, c *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return result{c.ProcessState.ExitCode(), out.String(), errs.String()}
}

// run runs a policy.
func (s *stage) run(t *testing.T, w written) result {
	t.Helper()
	return finish(t, s.command(t, w))
}

// shell runs commands in a jail.
func (s *stage) shell(t *testing.T, layer Layer, commands string) result {
	t.Helper()
	return s.run(t, s.policy("sh", "-c", commands).in(layer))
}

// layers are all ways to run.
var layers = []Layer{Namespaces, Landlock}

// eachLayer runs a test for each user and layer that this host has.
func eachLayer(t *testing.T, test func(t *testing.T, s *stage, layer Layer)) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		for _, layer := range layers {
			t.Run(string(layer), func(t *testing.T) {
				s := newStage(t, b)
				if layer == Namespaces {
					s.needNamespaces(t)
				}
				test(t, s, layer)
			})
		}
	})
}

// needNamespaces skips a test on a host that has none.
func (s *stage) needNamespaces(t *testing.T) {
	t.Helper()
	if s.UID == os.Getuid() {
		testbed.Namespaces(t, unix.CLONE_NEWPID)
	}
}

func contains(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q is not in:\n%s", want, text)
	}
}
