package escape

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// The holes that were measured in another sandbox for agents, Locus 0.26.6, by the numbers
// they were noted under: a tool that deletes the user's secrets while an agent runs and puts
// them back afterwards. Each has a control: the same thing outside, where it must work, or
// an ordinary file, for which it must.

// locus is a repository of the bed's user with secrets in it.
type locus struct {
	*testbed.Bed
	t *testing.T
}

var locusFiles = map[string]string{
	".env": "SECRET=1\n", "node_modules/x/test.pem": "key\n", "config/secrets.yml": "s\n", "plain.txt": "p\n",
}

func eachLocus(t *testing.T, test func(l locus)) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		l := locus{b, t}
		for name, text := range locusFiles {
			l.write(name, text)
		}
		test(l)
	})
}

func (l locus) write(name, text string) {
	l.t.Helper()
	path := filepath.Join(l.Work, name)
	if out, err := l.Program("mkdir", "-p", filepath.Dir(path)).CombinedOutput(); err != nil {
		l.t.Fatalf("%s", out)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Chown(path, l.UID, l.UID); err != nil {
		l.t.Fatal(err)
	}
}

// run runs a command to its end and returns what it printed, and its exit code.
func (l locus) run(c *exec.Cmd) (string, int) {
	l.t.Helper()
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		l.t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// intact fails if a file of the repository is not what it was.
func (l locus) intact() {
	l.t.Helper()
	for name, text := range locusFiles {
		if got, err := os.ReadFile(filepath.Join(l.Work, name)); err != nil || string(got) != text {
			l.t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// 1. A line of a file of the repository was run by a shell of the host.
func TestLocus1LinesAreNotRun(t *testing.T) {
	eachLocus(t, func(l locus) {
		made := filepath.Join(l.Dir, "made-on-the-host")
		line := "$(touch " + made + ")"
		l.write(".sandboxignore", line+"\n`touch "+made+"`\n*.pem\n")
		l.write(".coffer/setup.sh", line+"\n")
		l.write(".coffer/profile.sh", line+"\n")
		l.write("coffer.toml", "env.set.A = '"+line+"'\nsetup.commands = ['"+line+"; true']\ndaemons.d.command = ['sh', '-c', '"+line+"']\n"+
			"setup.scripts = ['.coffer/setup.sh', \"$(touch x)\"]\n")
		for _, args := range [][]string{
			{"run", "--", "sh", "-i", "-c", "echo $A"}, {"exec", "--create", "--", "true"}, {"config", "show"}, {"config", "check"}, {"trust", "--yes"}, {"init", "--print"},
		} {
			l.run(l.Command(args...))
			if _, err := os.Stat(made); err == nil {
				t.Fatalf("coffer %s ran a line on the host", strings.Join(args, " "))
			}
		}
		if l.run(l.Program("sh", "-c", "echo "+line)); os.Remove(made) != nil {
			t.Error("a shell of the host does not run the line either: it proves nothing")
		}
	})
}

// 2, 3, 8. Files were deleted from the host while an agent ran, and not all came back: not
// those in node_modules, not after Ctrl-C or a kill, and meanwhile other programs missed them.
func TestLocus2And3And8HostFilesStay(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"to its end": 0, "interrupted": syscall.SIGINT, "terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			eachLocus(t, func(l locus) {
				l.write(".sandboxignore", ".env\n*.pem\nconfig/secrets.yml\n")
				c := l.Command("run", "--", "sh", "-c", "rm plain.txt; echo running; exec cat >/dev/null")
				in, err := c.StdinPipe()
				if err != nil {
					l.t.Fatal(err)
				}
				out, err := c.StdoutPipe()
				if err != nil {
					l.t.Fatal(err)
				}
				if err := c.Start(); err != nil {
					l.t.Fatal(err)
				}
				word := make([]byte, 8)
				if n, err := out.Read(word); err != nil || !bytes.HasPrefix(word[:n], []byte("running")) {
					l.t.Fatalf("got %q, %v", word[:n], err)
				}
				// The control: what the program removes is removed.
				if _, err := os.Stat(filepath.Join(l.Work, "plain.txt")); err == nil {
					l.t.Error("the program did not work on the directory: it proves nothing")
				}
				l.write("plain.txt", locusFiles["plain.txt"])
				l.intact()
				if sig == 0 {
					in.Close()
				} else if err := c.Process.Signal(sig); err != nil {
					l.t.Fatal(err)
				}
				_ = c.Wait()
				l.intact()
			})
		})
	}
}

// 4. A pattern with a path in it protected nothing, and nobody said so.
func TestLocus4PathPatterns(t *testing.T) {
	eachLocus(t, func(l locus) {
		l.write(".sandboxignore", "config/secrets.yml\n/node_modules/x/*.pem\n")
		for _, args := range [][]string{{"run"}, {"run", "--workspace", "cow"}, {"jail"}} {
			out, _ := l.run(l.Command(append(args, "--", "sh", "-c", "cat plain.txt config/secrets.yml node_modules/x/test.pem; true")...))
			if strings.Contains("\n"+out, "\ns\n") || strings.Contains(out, "key\n") || !strings.Contains(out, "p\n") {
				t.Errorf("%v: %s", args, out)
			}
		}
		l.intact()
		os.Remove(filepath.Join(l.Work, ".sandboxignore"))
		if out, _ := l.run(l.Command("run", "--", "cat", "config/secrets.yml")); out != "s\n" {
			t.Errorf("without the line it cannot be read either, which proves nothing: %s", out)
		}
	})
}

// 6. Secrets were hidden from agents only: a login, a shell, a setup or an installation saw
// all of them.
func TestLocus6EverySession(t *testing.T) {
	eachLocus(t, func(l locus) {
		look := "cat plain.txt; cat .env; true"
		l.write(".coffer/setup.sh", look+"\n")
		for _, args := range [][]string{
			{"run", "--", "sh", "-c", look}, {"run", "--root", "--", "sh", "-c", look}, {"run", "--", "sh", "-ic", look},
			{"exec", "--create", "--name", "stays", "--workspace", "direct", "--trust", "--", "sh", "-c", look},
			{"exec", "-m", "stays", "--", "sh", "-c", look}, {"exec", "--root", "-m", "stays", "--", "sh", "-c", look},
			{"jail", "--", "sh", "-c", look}, {"jail", "--private", "--", "sh", "-c", look},
		} {
			out, _ := l.run(l.Command(args...))
			if strings.Contains(out, "SECRET") || !strings.Contains(out, "p\n") {
				t.Errorf("%v: %s", args, out)
			}
		}
		l.intact()
		if out, _ := l.run(l.Program("sh", "-c", look)); !strings.Contains(out, "SECRET") {
			t.Error("outside it cannot be read either: it proves nothing")
		}
	})
}

// 11. It was built on a command of another program, which is no more. Coffer needs none.
func TestLocus11NothingElseIsNeeded(t *testing.T) {
	eachLocus(t, func(l locus) {
		for _, args := range [][]string{{"run"}, {"exec", "--create", "--workspace", "direct"}, {"jail"}} {
			c := l.Command(append(args, "--", "/bin/sh", "-c", "echo inside $COFFER_SANDBOX")...)
			for i, e := range c.Env {
				if strings.HasPrefix(e, "PATH=") {
					c.Env[i] = "PATH=" + filepath.Join(l.Dir, "nothing")
				}
			}
			if out, code := l.run(c); code != 0 || !strings.Contains(out, "inside ") {
				t.Errorf("%v: %d, %s", args, code, out)
			}
		}
	})
}

// 5, 9. Where there was no sandbox, the agent ran without; and only one command knew how to
// forbid that.
func TestLocus5And9NeverOpenBySurprise(t *testing.T) {
	eachLocus(t, func(l locus) {
		outside := filepath.Join(l.Dir, "outside")
		touch := []string{"--", "sh", "-c", "touch " + outside + "; touch ran"}
		// On a host without namespaces.
		without := func(args ...string) *exec.Cmd {
			script := `echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"`
			return l.Program("unshare", append([]string{"--user", "--map-root-user", "sh", "-c", script, "sh", l.Coffer}, args...)...)
		}
		for _, c := range []struct {
			args []string
			runs bool
		}{
			{[]string{"run"}, true}, // in a jail
			{[]string{"run", "--sandbox=require"}, false},
			{[]string{"run", "--sandbox=off"}, false},
			{[]string{"exec", "--create"}, false},
			{[]string{"exec", "--create", "--sandbox=require"}, false},
			{[]string{"exec", "--create", "--sandbox=off", "--yes"}, false},
			{[]string{"jail", "--in-place", "--sandbox=require"}, false},
			{[]string{"jail", "--sandbox=off"}, false},
		} {
			out, code := l.run(without(append(c.args, touch...)...))
			ran := os.Remove(filepath.Join(l.Work, "ran")) == nil
			if escaped := os.Remove(outside) == nil; escaped || ran != c.runs || !ran && code != 125 {
				t.Errorf("%s: ran %v, escaped %v, code %d\n%s", strings.Join(c.args, " "), ran, escaped, code, out)
			}
		}
		l.run(without("run", "--sandbox=off", "--yes", "--", "touch", outside))
		if os.Remove(outside) != nil {
			t.Error("not even without a sandbox the file is made: it proves nothing")
		}
	})
}

// 7. From a worktree, the secrets of the repository above it could be read.
func TestLocus7WorktreeSeesNoParent(t *testing.T) {
	eachLocus(t, func(l locus) {
		git := "git init -q . && git add plain.txt && git -c user.name=a -c user.email=a@b.example commit -qm 1"
		if out, code := l.run(l.Program("sh", "-c", git)); code != 0 {
			t.Fatal(out)
		}
		secret := filepath.Join(l.Work, ".env")
		out, _ := l.run(l.Command("exec", "--create", "--name", "tree", "--workspace", "worktree", "--", "sh", "-c",
			"cat plain.txt; cat "+secret+" ../.env ../../.env ../../../.env ../../../../.env; find / -xdev -name .env 2>/dev/null; true"))
		if strings.Contains(out, "SECRET") || !strings.Contains(out, "p\n") {
			t.Errorf("inside: %s", out)
		}
		if out, _ := l.run(l.Program("cat", secret)); !strings.Contains(out, "SECRET") {
			t.Error("outside it cannot be read either: it proves nothing")
		}
	})
}

// 10. Keys that promised protection were never read, and programs were privileged.
func TestLocus10KeysAreKept(t *testing.T) {
	eachLocus(t, func(l locus) {
		l.write("coffer.toml", "readOnlyPaths = [\"config\"]\nextraWorkspaces = []\n")
		if out, code := l.run(l.Command("run", "--", "true")); code != 125 || !strings.Contains(out, "unknown key \"readOnlyPaths\"") || !strings.Contains(out, "extraWorkspaces") {
			t.Errorf("code %d: %s", code, out)
		}
		l.write("coffer.toml", "nesting = false\n")
		if out, code := l.run(l.Command("run", "--", "grep", "CapEff", "/proc/self/status")); code != 0 || !strings.Contains(out, "CapEff:\t0000000000000000") {
			t.Errorf("code %d: %s", code, out)
		}
	})
}
