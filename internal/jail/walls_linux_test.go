package jail

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// A wall is something that a program in a jail tries. Outside of one the same must work,
// or it would prove nothing.
type wall struct {
	what string // what to try, with placeholders: see victims.fill
	// open lists the layers in which it may work: the gaps.
	open []Layer
}

// walls are closed whatever version of Landlock there is.
var walls = []wall{
	// By this every supervisor knows whom not to hear.
	{what: "unmarked:"}, {what: "unmark:"},
	{what: "write:OUT/file"}, {what: "create:OUT/new"}, {what: "mkdir:OUT/newdir"},
	{what: "truncate:OUT/file"}, {what: "open-truncate:OUT/file"},
	{what: "remove:OUT/gone"}, {what: "rename:OUT/renamed"}, {what: "link:OUT/linked"},

	{what: "chmod:OUT/file", open: []Layer{Landlock}}, {what: "fchmod:OUT/file", open: []Layer{Landlock}},
	{what: "proc-self:OUT/file", open: []Layer{Landlock}}, {what: "through-link:OUT/file", open: []Layer{Landlock}},
	{what: "chown:OUT/file", open: []Layer{Landlock}}, {what: "lchown:OUT/file", open: []Layer{Landlock}},
	{what: "fchown:OUT/file", open: []Layer{Landlock}}, {what: "utimes:OUT/file", open: []Layer{Landlock}},
	{what: "utimensat:OUT/file", open: []Layer{Landlock}}, {what: "futimens:OUT/file", open: []Layer{Landlock}},
	{what: "touch:OUT/file", open: []Layer{Landlock}},
	{what: "setxattr:OUT/file", open: []Layer{Landlock}}, {what: "fsetxattr:OUT/file", open: []Layer{Landlock}},
	{what: "removexattr:OUT/file", open: []Layer{Landlock}}, {what: "setflags:OUT/file", open: []Layer{Landlock}},

	{what: "connect:OUT/sock"}, {what: "sendto:OUT/dgram"}, {what: "pair:OUT/dgram"}, {what: "abstract:ABSTRACT"},
	{what: "ptrace:VICTIM"}, {what: "memory:VICTIM"}, {what: "environ:VICTIM"},
	{what: "tiocsti:"}, {what: "tioclinux:"}, {what: "tiocsti64:"}, {what: "int80:"},
	{what: "setuid:WORK/mine"},
	{what: "open:TERMINAL"}, {what: "read:OTHER"},
}

// victims are what walls keep from harm.
type victims struct {
	*stage
	abstract string
	process  *exec.Cmd
	other    string // a file in /tmp
	terminal string // another one of the user's
}

func newVictims(t *testing.T, s *stage) *victims {
	t.Helper()
	v := &victims{stage: s, abstract: filepath.Base(s.Dir)}
	for _, name := range []string{"file", "gone", "renamed", "linked"} {
		s.write(t, filepath.Join(s.Out, name), name)
	}
	if err := unix.Setxattr(filepath.Join(s.Out, "file"), "user.there", []byte("x"), 0); err != nil {
		t.Logf("no extended attributes here: %v", err)
	}
	s.write(t, filepath.Join(s.Work, "mine"), "mine")
	for _, l := range []struct{ network, address string }{
		{"unix", filepath.Join(s.Out, "sock")}, {"unixgram", filepath.Join(s.Out, "dgram")}, {"unix", "@" + v.abstract},
	} {
		v.listen(t, l.network, l.address)
	}
	v.process = s.Program("/bin/cat") // it ends when we do, however that comes
	stdin, err := v.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		v.process.Process.Kill()
		v.process.Wait()
	})
	other, err := os.CreateTemp("/tmp", "coffer-other-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(other.Name()) })
	other.Chmod(0o644)
	v.other = other.Name()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close(); slave.Close() })
	v.terminal = slave.Name()
	if err := os.Chown(v.terminal, s.UID, s.UID); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *victims) listen(t *testing.T, network, address string) {
	t.Helper()
	var err error
	if network == "unixgram" {
		var c *net.UnixConn
		if c, err = net.ListenUnixgram(network, &net.UnixAddr{Name: address, Net: network}); err == nil {
			t.Cleanup(func() { c.Close() })
		}
	} else {
		var l net.Listener
		if l, err = net.Listen(network, address); err == nil {
			t.Cleanup(func() { l.Close() })
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(address, "@") {
		if err := os.Chmod(address, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// fill puts names in.
func (v *victims) fill(what string) string {
	return strings.NewReplacer("OUT", v.Out, "WORK", v.Work, "ABSTRACT", v.abstract,
		"VICTIM", fmt.Sprint(v.process.Process.Pid), "OTHER", v.other, "TERMINAL", v.terminal).Replace(what)
}

// try tries things in a jail, or, without a policy, outside.
func (v *victims) try(t *testing.T, w *written, what []string) []string {
	t.Helper()
	argv := append([]string{v.Binary, "jail-try"}, what...)
	var r result
	if w == nil {
		r = finish(t, v.Program(argv[0], argv[1:]...))
	} else {
		w.Argv = argv
		r = v.run(t, *w)
	}
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != len(what) {
		t.Fatalf("%d answers to %d questions: %v", len(lines), len(what), r)
	}
	return lines
}

func TestWalls(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		v := newVictims(t, s)
		var what []string
		for _, w := range walls {
			what = append(what, v.fill(w.what))
		}
		policy := s.policy().in(layer)
		inside := v.try(t, &policy, what)
		v = newVictims(t, newStage(t, s.Bed)) // the same once more, untouched
		for i, w := range walls {
			what[i] = v.fill(w.what)
		}
		outside := v.try(t, nil, what)
		for i, w := range walls {
			gap := slices.Contains(w.open, layer)
			switch {
			case outside[i] != "ok":
				t.Errorf("%s: %s outside, so it proves nothing", w.what, outside[i])
			case gap && inside[i] != "ok":
				t.Errorf("%s: %s, although it is said to be a gap", w.what, inside[i])
			case !gap && inside[i] == "ok":
				t.Errorf("%s: it works", w.what)
			default:
				t.Logf("%s: %s", w.what, inside[i])
			}
		}
	})
}

// What a program needs works: in the context, for temporary files, with devices.
func TestWorks(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		v := newVictims(t, s)
		s.write(t, filepath.Join(s.Work, "sub", "x"), "x")
		what := []string{
			"create:WORK/new", "write:WORK/mine", "mkdir:WORK/dir", "move:WORK/new", "chmod:WORK/mine", "fchmod:WORK/mine",
			"proc-self:WORK/mine", "chown:WORK/mine", "fchown:WORK/mine", "lchown:WORK/mine", "utimes:WORK/mine",
			"utimensat:WORK/mine", "futimens:WORK/mine", "touch:WORK/mine", "setxattr:WORK/mine", "fsetxattr:WORK/mine",
			"truncate:WORK/mine", "remove:WORK/mine", "read:OUT/file", "list:OUT", "list:/", "list:/etc", "read:/etc/passwd",
			"write:/dev/null", "read:/proc/self/status", "run:/bin/true",
		}
		if layer == Namespaces {
			what = append(what, "listen:WORK/own.sock", "listen:/tmp/own.sock", "pty:", "create:/tmp/x", "create:/dev/shm/x", "create:/var/tmp/y", "list:/run")
		}
		for i := range what {
			what[i] = v.fill(what[i])
		}
		policy := s.policy().in(layer)
		for i, got := range v.try(t, &policy, what) {
			if got != "ok" {
				t.Errorf("%s: %s", what[i], got)
			}
		}
		if r := s.shell(t, layer, `f=$(mktemp) && echo x >$f && chmod 600 $f && touch -d 2001-01-01 $f && cp -p $f copy && tar cf - copy | tar xf - && ls -l --time-style=+%Y copy`); r.code != 0 || !strings.Contains(r.out, "2001") {
			t.Errorf("temporary files: %v", r)
		}
	})
}
