package jail

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

// A private jail reads the system, the context, and what it was given; of the home nothing
// else, not even names where a view hides them.
func TestPrivate(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		v := newVictims(t, s)
		s.write(t, filepath.Join(s.Home, ".ssh", "id"), "key")
		s.write(t, filepath.Join(s.Home, "given"), "given")
		s.write(t, filepath.Join(s.Home, ".local", "bin", "tool"), "#!/bin/sh\n")
		os.Chmod(filepath.Join(s.Home, ".local", "bin", "tool"), 0o755)
		w := s.policy().in(layer)
		w.Private = true
		w.Read = []string{filepath.Join(s.Home, "given")}
		secret := []string{"read:HOME/.ssh/id", "list:HOME/.ssh", "list:HOME/out", "read:OUT/file", "list:/var/lib"}
		if info, err := os.Stat("/etc/shadow"); s.UID == 0 && layer == Namespaces && err == nil && info.Mode()&4 == 0 {
			secret = append(secret, "read:/etc/shadow")
		}
		fine := []string{"read:HOME/given", "read:WORK/mine", "create:WORK/new", "read:/etc/passwd", "run:/bin/true", "list:/usr/bin",
			"run:HOME/.local/bin/tool", "read:/proc/self/status", "write:/dev/null", "read:/etc/resolv.conf"}
		var what []string
		for _, x := range append(secret, fine...) {
			what = append(what, strings.ReplaceAll(v.fill(x), "HOME", s.Home))
		}
		inside, outside := v.try(t, &w, what), v.try(t, nil, what)
		for i := range what {
			if hidden := i < len(secret); hidden == (inside[i] == "ok") {
				t.Errorf("%s: %s", what[i], inside[i])
			}
			if outside[i] != "ok" && !strings.HasPrefix(what[i], "create") {
				t.Errorf("%s: %s outside, so it proves nothing", what[i], outside[i])
			}
		}
		if layer == Namespaces {
			w.Argv = []string{"sh", "-c", "ls -A " + s.Home + "; echo x >" + s.Home + "/scratch"}
			r := s.run(t, w)
			if strings.Contains(r.out, ".ssh") || !strings.Contains(r.out, "work") || r.code != 0 {
				t.Errorf("the home: %v", r)
			}
			if _, err := os.Lstat(filepath.Join(s.Home, "scratch")); err == nil {
				t.Error("the real home was written to")
			}
		}
	})
}

// Without a network nothing is reached, not even on the host's loopback.
func TestNetNone(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		u, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		v := newVictims(t, s)
		what := []string{"tcp:" + l.Addr().String(), "udp:" + u.LocalAddr().String()}
		w := s.policy().in(layer)
		if got := v.try(t, &w, what); strings.Join(got, "") != "okok" {
			t.Errorf("the host's network: %v", got)
		}
		w.Net = NetNone
		v.try(t, &w, what)
		// To send a datagram proves nothing, to receive one does.
		buf := make([]byte, 16)
		u.SetReadDeadline(time.Now().Add(time.Minute))
		if n, _, err := u.ReadFrom(buf); err != nil || n != 1 {
			t.Fatalf("the datagram over the host's network: %v", err)
		}
		got := v.try(t, &w, what)
		if got[0] == "ok" {
			t.Errorf("tcp: %v", got)
		}
		// What had come through would be before this.
		if last, err := net.Dial("udp", u.LocalAddr().String()); err != nil {
			t.Fatal(err)
		} else {
			defer last.Close()
			last.Write([]byte("last"))
		}
		u.SetReadDeadline(time.Now().Add(time.Minute))
		if n, _, err := u.ReadFrom(buf); err != nil || string(buf[:n]) != "last" {
			t.Errorf("%q came through, %v", buf[:n], err)
		}
		if layer == Namespaces {
			w.Argv = []string{"sh", "-c", "cat /proc/net/dev | grep -c :"}
			if r := s.run(t, w); strings.TrimSpace(r.out) != "1" {
				t.Errorf("interfaces: %v", r)
			}
		}
	})
}

// Descriptors that the user's shell left open go no further.
func TestInheritedDescriptors(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		f, err := os.Open(s.Out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c := s.command(t, s.policy("sh", "-c", "ls /proc/self/fd | tr '\\n' ' '").in(layer))
		c.ExtraFiles = []*os.File{f, f, f}
		r := finish(t, c)
		if r.out != "0 1 2 3 " { // 3 is ls's own
			t.Errorf("%v", r)
		}
		c = s.Program("/bin/sh", "-c", "ls /proc/self/fd | tr '\\n' ' '")
		c.ExtraFiles = []*os.File{f, f, f}
		if r := finish(t, c); r.out == "0 1 2 3 " {
			t.Errorf("outside, so it proves nothing: %v", r)
		}
	})
}

// On a host that refuses namespaces the jail does without, and says so.
func TestRefused(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		testbed.Needs(t, "unshare", "setpriv")
		c := s.command(t, s.policy("sh", "-c", "echo works >made; echo x >/etc/made; cat made"))
		// In a namespace of its own a user may forbid further ones.
		c = s.Program("unshare", "--user", "--map-root-user", "sh", "-c",
			`echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"`, "sh", c.Args[0], c.Args[1], c.Args[2])
		r := finish(t, c)
		if r.code != 0 || r.out != "works\n" {
			t.Fatal(r)
		}
		contains(t, r.err, "user namespaces are not available")
		contains(t, r.err, "not closed: the modes, owners, times and attributes")
		contains(t, r.err, "not closed: git's directory")
		contains(t, r.err, "not closed: files with secrets that you make")
		if strings.Count(r.err, "not closed") != 5 {
			t.Errorf("gaps are said of more than one layer: %v", r)
		}
	})
}

// Without a /proc of its own the jail does without a process namespace.
func TestNoProcesses(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		v := newVictims(t, s)
		w := s.policy()
		w.Bare = true
		v.tried(t, w, "chmod:OUT/file", "environ:VICTIM", "ptrace:VICTIM", "connect:OUT/sock", "kill:VICTIM")
		w.ABI = 5
		w.Argv = []string{"true"}
		r := s.run(t, w)
		contains(t, r.err, "not closed: your other programs can be sent signals")
	})
}

// Two jails share reserved names, and the last gives them back; what a killed one left is
// taken over.
func TestReservedNames(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		vscode := filepath.Join(s.Work, ".vscode")
		wait := s.policy("sh", "-c", `echo runs; read x; mkdir .vscode/x`)
		start := func() (*exec.Cmd, func() int) {
			c := s.command(t, wait)
			in, _ := c.StdinPipe()
			out, _ := c.StdoutPipe()
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Process.Kill(); c.Wait() })
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			return c, func() int { in.Close(); c.Wait(); return c.ProcessState.ExitCode() }
		}
		_, end1 := start()
		_, end2 := start()
		if code := end1(); code == 0 {
			t.Error("the first could use the name")
		}
		if _, err := os.Lstat(vscode); err != nil {
			t.Errorf("the first gave away the second's name: %v", err)
		}
		if code := end2(); code == 0 {
			t.Error("the second could use the name")
		}
		s.unclean(t, s.Work)
		c, _ := start()
		c.Process.Kill()
		c.Wait()
		if _, err := os.Lstat(vscode); err != nil {
			t.Errorf("nothing was left by a killed one, so this proves nothing: %v", err)
		}
		s.settles(t, s.Work)
		s.unclean(t, s.Work)
	})
}

// settles has jails come and go until the last gives back the names that it shares with one that
// was killed: the processes of that one hold them until the kernel is done with them.
func (s *stage) settles(t *testing.T, context string) {
	t.Helper()
	w := s.policy("true")
	w.Context, w.Dir = context, context
	for end := time.Now().Add(time.Minute); ; {
		if r := s.run(t, w); r.code != 0 {
			t.Error(r)
		}
		if _, err := os.Lstat(filepath.Join(context, ".vscode")); err != nil || time.Now().After(end) {
			return
		}
	}
}

// What the user opened by name is open.
func TestOpened(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		s.write(t, filepath.Join(s.Work, ".idea", "x"), "x")
		w := s.policy("sh", "-c", "echo y >.idea/x && echo z >"+s.Out+"/z").in(layer)
		w.Write = []string{filepath.Join(s.Work, ".idea"), s.Out}
		if r := s.run(t, w); r.code != 0 {
			t.Error(r)
		}
		// Opening a part of what is closed opens that part.
		s.write(t, filepath.Join(s.Work, ".claude", "commands", "x"), "x")
		w = s.policy("sh", "-c", "echo y >.claude/commands/x").in(layer)
		w.Write = []string{filepath.Join(s.Work, ".claude", "commands")}
		if r := s.run(t, w); r.code != 0 {
			t.Error(r)
		}
		if w.Argv[2] = "echo y >.claude/settings.json"; layer == Namespaces {
			if r := s.run(t, w); r.code == 0 {
				t.Error("opening a part opened the whole")
			}
		}
	})
}

// A quiet jail does not say what is open.
func TestQuiet(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		w := s.policy("true").in(Landlock)
		w.Quiet = true
		if r := s.run(t, w); strings.Contains(r.err, "not closed") {
			t.Error(r)
		}
	})
}

// On a host that hides a part of /proc, as containers do, nobody may mount one: the jail
// does without a process namespace, and says everything once.
func TestMaskedProc(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		testbed.Needs(t, "unshare", "setpriv")
		w := s.policy("sh", "-c", "test -d /proc/$PPID && echo sees; echo x >/etc/made || echo closed")
		w.ABI = 5
		c := s.command(t, w)
		c = s.Program("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
			`mount -t tmpfs none /proc/bus && exec setpriv --bounding-set=-all --inh-caps=-all "$@"`, "sh", c.Args[0], c.Args[1], c.Args[2])
		r := finish(t, c)
		if r.code != 0 || r.out != "sees\nclosed\n" {
			t.Fatal(r)
		}
		if strings.Count(r.err, "your other programs can be sent signals") != 1 {
			t.Error(r)
		}
	})
}
