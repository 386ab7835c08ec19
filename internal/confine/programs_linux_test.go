package confine

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

// programs must run under everything at once. Each works in a directory of its
// own and must print the same as it does unconfined.
var programs = []struct {
	name string
	args []string
}{
	{"bash", []string{"-c", `set -e; cat <<<here | tr a-z A-Z; echo x >f; chmod 1755 f; mv f g; (exit 3) || echo $?; wait; test -w g; kill -0 $$`}},
	{"git", []string{"-c", "init.defaultBranch=m", "init", "-q", "repo"}},
	{"bash", []string{"-c", `git init -q r && cd r && echo a >a && git add a && git -c user.name=n -c user.email=e commit -q -m m && git status --short && git ls-files`}},
	{"node", []string{"-e", `const fs=require("fs"),cp=require("child_process");fs.writeFileSync("f","1");require("os").networkInterfaces();` +
		`fs.promises.readFile("f").then(b=>console.log(""+b+cp.execFileSync("echo",["child"])))`}},
	{"python3", []string{"-c", `import subprocess,threading,socket,tempfile,multiprocessing as m;` +
		`t=threading.Thread(target=print,args=("thread",));t.start();t.join();socket.socketpair();` +
		`print(subprocess.run(["echo","child"],capture_output=True).stdout);m.Queue();tempfile.TemporaryFile().write(b"x")`}},
	{"perl", []string{"-e", `print "perl ", (getpwuid(0))[0], "\n"`}},
	{"tar", []string{"-cf", "x.tar", "/etc/hostname", "/etc/passwd"}},
	{"bash", []string{"-c", `mkdir d; cp /etc/passwd d; tar cf t d; rm -r d; tar xpf t; ls d`}},
	{"go", []string{"version"}},
	{"bash", []string{"-c", `command -v gdb >/dev/null && gdb -q -batch -ex "set disable-randomization off" -ex run /bin/true 2>&1 | sed "s/process [0-9]*//"`}},
	{"strace", []string{"-qq", "-e", "trace=none", "/bin/echo", "traced"}},
	{"java", []string{"-version"}},
}

func TestPrograms(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			testbed.Needs(t, p.name)
			run := func(dir string) (string, error) {
				cmd := exec.Command(p.name, p.args...)
				cmd.Dir = dir
				// No place for configuration, where the go command would
				// keep writing counters while the test cleans up.
				cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "XDG_CONFIG_HOME=/dev/null/none")
				out, err := cmd.CombinedOutput()
				return string(bytes.TrimSpace(out)), err
			}
			want, err := run(t.TempDir())
			if err != nil {
				t.Skipf("does not run unconfined: %v: %s", err, want)
			}
			dir := t.TempDir()
			var got string
			err = onThread(func() error {
				if err := lockdown(dir, "/dev", "/proc"); err != nil {
					return err
				}
				got, err = run(dir)
				return err
			})
			if err != nil || got != want {
				t.Errorf("%v\n%s\nunconfined:\n%s", err, got, want)
			}
		})
	}
}

// TestTrampoline: a process that confines itself and then becomes the program.
func TestTrampoline(t *testing.T) {
	out, err := helperCommand("trampoline", "/bin/sh", "-c", "cat /proc/self/status").Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("%v: %v", err, exit)
	}
	if s := parseStatus(string(out)); s["Seccomp"] != "2" || s["NoNewPrivs"] != "1" || s["CapEff"] != "0000000000000000" {
		t.Errorf("not confined: %v", s)
	}
}

// BenchmarkConfine is the time a start pays: the four locks on a fresh thread,
// without the making of the thread.
func BenchmarkConfine(b *testing.B) {
	dir := b.TempDir()
	steps := []struct {
		unit string
		do   func() error
	}{
		{"nnp-ns", NoNewPrivs},
		{"caps-ns", func() error { return DropCapabilities() }},
		{"landlock-ns", func() error {
			if LandlockABI() == 0 {
				return nil
			}
			return Landlock(LandlockRules{Write: []string{dir, "/tmp", "/dev", "/var/tmp"}})
		}},
		{"seccomp-ns", func() error { return Seccomp(SeccompOptions{}) }},
	}
	spent := make([]time.Duration, len(steps))
	for b.Loop() {
		err := onThread(func() error {
			for i, step := range steps {
				start := time.Now()
				if err := step.do(); err != nil {
					return err
				}
				spent[i] += time.Since(start)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	var total time.Duration
	for i, step := range steps {
		total += spent[i]
		b.ReportMetric(float64(spent[i].Nanoseconds())/float64(b.N), step.unit)
	}
	b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "locks-ns")
}

// BenchmarkFilter is the assembling alone.
func BenchmarkFilter(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		native().filter(SeccompOptions{})
	}
}
