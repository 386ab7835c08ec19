package fault

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/halt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// floods are what programs inside may do to keep a watch busy, in Perl, which is everywhere.
var floods = []struct{ name, program string }{
	{"nothing", `sleep 5`},
	{"9,000 files that are hidden", `for $i (1..9000) { open F, ">flood/.env.$i"; print F "x"; close F } sleep 3`},
	{"15,000 empty files", `for $i (1..15000) { open F, ">flood/.env.$i"; close F } sleep 3`},
	{"files that come and go", `$t=time+5; while (time<$t) { for (1..100) { $i++; open F, ">flood/.env.$i"; print F "x"; close F; unlink "flood/.env.$i" } }`},
	{"plain files that come and go", `$t=time+5; while (time<$t) { for $i (1..100) { open F, ">flood/$i"; close F; unlink "flood/$i" } }`},
	{"directories that come and go", `$t=time+5; while (time<$t) { for $i (1..100) { mkdir "flood/$i"; rmdir "flood/$i" } }`},
	{"hidden links", `for $i (1..4000) { symlink "to$i", "flood/.env.$i" } $t=time+3; while (time<$t) { open F, ">flood/x"; close F; unlink "flood/x" }`},
}

// TestMaskFlood measures how long a file that appears on the host can be read inside, by a
// program that runs, while programs do their best to keep the watch busy: in a sandbox and in a
// jail. It asserts nothing about times, so it runs only when it is asked for, with COFFER_MEASURE=1.
func TestMaskFlood(t *testing.T) {
	if os.Getenv("COFFER_MEASURE") == "" {
		t.Skip("it measures: set COFFER_MEASURE=1")
	}
	each(t, func(t *testing.T, w world) {
		for _, how := range flooders {
			t.Run(how[0], func(t *testing.T) {
				for _, f := range floods {
					t.Logf("%s: %s", f.name, flooded(t, w, how, f.program))
				}
			})
		}
	})
}

// TestMaskFlooded: programs that make files to hide as fast as they can go on when these are
// hidden, and a file of the user's is hidden among them. One that was stopped stays so.
func TestMaskFlooded(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, how := range flooders {
			program := strings.ReplaceAll(`
perl -e 'kill STOP => $$; open F, ">went-on"' & stopped=$!
until grep -q '^State:.T' /proc/$stopped/status; do :; done
: >ready; until [ -e begin ]; do :; done
perl -e 'for $i (1..4000) { open F, ">flood/.env.$i" or die; print F "x"; close F }' || exit 3
: >flooded; n=0
while cat mine/late.key >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 3000 ] || exit 4; sleep 0.02; done
for i in 1 2000 4000; do n=0; while cat flood/.env.$i >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 3000 ] || exit 5; sleep 0.02; done; done
[ HOW = jail ] || ! [ -e went-on ] || exit 6
kill -KILL $stopped; exit 7`, "HOW", how[0])
			c := floodPlace(t, w, w.Command(), how, "sh", "-c", program)
			touch(t, w, "begin")
			secret(t, w, "mine/late.key")
			if r := finish(t, c); r.code != 7 {
				t.Errorf("%s: %s", how[0], r)
			}
		}
	})
}

// TestMaskFloodedTerminal: nor does the command that waits for such a program at a terminal take
// it for stopped.
func TestMaskFloodedTerminal(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		ours, theirs, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		go io.Copy(io.Discard, ours)
		for _, how := range flooders {
			c := w.Command()
			c.Stdin, c.Stdout, c.Stderr = theirs, theirs, theirs
			if c.SysProcAttr == nil {
				c.SysProcAttr = &syscall.SysProcAttr{}
			}
			c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
			floodPlace(t, w, c, how, "sh", "-c", `: >ready; until [ -e begin ]; do :; done
sh -ic 'perl -e "for (1..4000) { open F, qq(>flood/.env.\$_) or die; print F 1; close F }"; sleep 0.2'; exit 7`)
			touch(t, w, "begin")
			// Whether its job went on, too, is up to the shell, which may take it for stopped.
			if r := finish(t, c); r.code != 7 {
				t.Errorf("%s: %s", how[0], r)
			}
		}
		theirs.Close()
	})
}

// TestMaskFull: a program that makes more files to hide than can be is ended, and it is said why.
func TestMaskFull(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, how := range flooders {
			c := floodPlace(t, w, w.Command(), how, "perl", "-e", `open F, ">ready"; until (-e "begin") { select undef, undef, undef, 0.01 }
for $i (1..20000) { open F, ">flood/.env.$i"; print F "x"; close F } open F, ">flooded"; sleep 600`)
			touch(t, w, "begin")
			if r := finish(t, c); r.code == 0 || !strings.Contains(r.err, "too many files to hide") {
				t.Errorf("%s: %s", how[0], r)
			}
		}
	})
}

// restless has a program go on by itself when it is stopped: timers send it SIGCONT.
var restless = fmt.Sprintf(`$SIG{CONT} = sub {}; $event = pack "q l l x48", 0, %d, 0;
for $i (10..500) {
	$timer = pack "q", 0; syscall(%d, 1, $event, $timer) == 0 or die "timer: $!";
	$soon = pack "qqqq", 0, $i*1e6, 0, $i*1e6; syscall(%d, unpack("l", $timer), 0, $soon, 0) == 0 or die "timer: $!";
}
`, unix.SIGCONT, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME)

// endless has the watch look through a directory, again and again, which takes it far longer than this.
const endless = `mkdir "flood/a"; for $i (1..300) { open F, ">flood/a/$i"; close F }
while (1) { rename "flood/a", "flood/b"; rename "flood/b", "flood/a" }
`

// TestMaskFloodRestless: one that goes on while all have to wait is ended, which is said, and all
// others go on as if nothing had happened.
func TestMaskFloodRestless(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, how := range flooders {
			c := floodPlace(t, w, w.Command(), how, "sh", "-c", `
PERL_SIGNALS=unsafe perl -e 'open F, ">ready"; until (-e "begin") { select undef, undef, undef, 0.01 } '"$0$1" & restless=$!
perl -e 'while (1) { $n++ }' & busy=$!
sleep 600 & quiet=$!
wait $restless; code=$?
kill -0 $busy && kill -0 $quiet || exit 3
kill -TERM $busy $quiet; wait $busy; a=$?; wait $quiet; b=$?
[ $code = 137 ] && [ $a$b = 143143 ] || { echo "$code $a $b" >&2; exit 4; }
cat flood/.env 2>/dev/null && exit 5
exit 7`, restless, endless)
			touch(t, w, "begin")
			if r := finish(t, c); r.code != 7 || !strings.Contains(r.err, "was ended, because it went on while all programs had to wait") {
				t.Errorf("%s: %s", how[0], r)
			}
		}
	})
}

// TestMaskFloodForks: if such a one is a new process again and again, all are ended.
func TestMaskFloodForks(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, how := range flooders {
			c := floodPlace(t, w, w.Command(), how, "env", "PERL_SIGNALS=unsafe", "perl", "-e", `open F, ">ready"; until (-e "begin") { select undef, undef, undef, 0.01 }
unless (fork) { `+endless+` }
unless (fork) { fork for 1..3; while (1) { `+restless+` select undef, undef, undef, 0.003; exit if fork } }
sleep 600`)
			touch(t, w, "begin")
			if r := finish(t, c); r.code == 0 || !strings.Contains(r.err, "programs went on though all had to wait") {
				t.Errorf("%s: %s", how[0], r)
			}
		}
	})
}

// flooders are ways to run a program over the user's own directory.
var flooders = [][]string{{"run", "--workspace", "direct", "--"}, {"jail", "--net", "host", "--"}}

// floodPlace starts a program and waits until it is ready, and the watch with it.
func floodPlace(t *testing.T, w world, c *exec.Cmd, how []string, program ...string) *exec.Cmd {
	t.Helper()
	for _, name := range []string{"flood", "mine", "ready", "begin", "flooded", "went-on"} {
		os.RemoveAll(filepath.Join(w.Work, name))
	}
	for _, dir := range []string{"flood", "mine"} {
		secret(t, w, dir+"/.env")
	}
	c.Args = slices.Concat(c.Args, how, program)
	start(t, c)
	eventually(t, func() error {
		if !exists(filepath.Join(w.Work, "ready")) {
			return fmt.Errorf("it is not ready: %s", output(c))
		}
		return nil
	})
	return c
}

func touch(t *testing.T, w world, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Work, name), nil, 0o666); err != nil {
		t.Fatal(err)
	}
}

func flooded(t *testing.T, w world, how []string, flood string) string {
	for _, dir := range []string{"flood", "mine"} {
		os.RemoveAll(filepath.Join(w.Work, dir))
		secret(t, w, dir+"/.env")
		os.Chmod(filepath.Join(w.Work, dir), 0o777)
	}
	mark := fmt.Sprint(time.Now().UnixNano())
	program := `while (! -e "begin") { select undef, undef, undef, 0.01 } unlink "begin"; ` + flood + " # " + mark
	c := w.Command(append(slices.Clone(how), "perl", "-e", program)...)
	start(t, c)
	defer func() { c.Process.Kill(); c.Wait() }()
	pid := 0
	eventually(t, func() (err error) {
		out, _ := exec.Command("pgrep", "-f", "^perl.*"+mark).Output()
		if pid, err = strconv.Atoi(strings.TrimSpace(string(out))); err != nil {
			return fmt.Errorf("running: %w: %s", err, output(c))
		}
		return nil
	})
	inside := fmt.Sprintf("/proc/%d/root", pid)
	time.Sleep(500 * time.Millisecond) // the watch begins after the start
	touch(t, w, "begin")
	ended := make(chan struct{})
	go func() { c.Wait(); close(ended) }()
	var all []time.Duration
	for i := 0; ; i++ {
		select {
		case <-ended:
			slices.Sort(all)
			if len(all) == 0 {
				return "none: " + output(c).err
			}
			return fmt.Sprintf("%d files, half within %s, all within %s %s", len(all), all[len(all)/2].Round(100*time.Microsecond), all[len(all)-1].Round(100*time.Microsecond), output(c).err)
		case <-time.After(10 * time.Millisecond):
		}
		at := filepath.Join(w.Work, fmt.Sprintf("mine/%d.key", i))
		begun := time.Now()
		if err := os.WriteFile(at, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		for time.Since(begun) < 20*time.Second {
			f, err := os.Open(inside + at)
			if err != nil || halt.Here.Stopped(pid) {
				break
			}
			f.Close()
			time.Sleep(100 * time.Microsecond)
		}
		all = append(all, time.Since(begun))
	}
}
