package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMaskLatency measures how long a file that appears on the host can be read inside, in
// a repository of ten thousand files, when it is quiet and while programs inside make
// files; and what the supervisor uses when nothing happens. It asserts nothing about
// times, so it runs only when it is asked for, with COFFER_MEASURE=1.
func TestMaskLatency(t *testing.T) {
	if os.Getenv("COFFER_MEASURE") == "" {
		t.Skip("it measures: set COFFER_MEASURE=1")
	}
	each(t, func(t *testing.T, w world) {
		for i := range 10_000 {
			dir := filepath.Join(w.Work, fmt.Sprintf("pkg%d/sub%d", i%40, i/10))
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.go", i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		secret(t, w, "first/.env")
		w.must(t, "exec", "--create", "--workspace", "direct", "--name", "l", "--", "true")
		c := w.Command("exec", "-m", "l", "--", "sleep", "600.125")
		start(t, c)
		pid := ""
		eventually(t, func() error {
			out, err := exec.Command("pgrep", "-xf", "sleep 600.125").Output()
			if pid = strings.TrimSpace(string(out)); err == nil && strings.Contains(pid, "\n") {
				err = fmt.Errorf("there are several: %q", pid)
			}
			return err
		})
		inside := "/proc/" + pid + "/root"
		eventually(t, func() error {
			if f, err := os.Open(inside + filepath.Join(w.Work, "first/.env")); err == nil {
				f.Close()
				return fmt.Errorf("it can be read")
			}
			return nil
		})
		time.Sleep(2 * time.Second) // the watch begins after the start
		super := supervisorOf(t, w)
		before := ticks(super)
		time.Sleep(10 * time.Second)
		t.Logf("idle for 10 s: %d ticks of the processor, %s resident", ticks(super)-before, resident(super))
		t.Logf("quiet: %s", appear(t, w, inside, "quiet"))
		busy := w.Command("exec", "-m", "l", "--", "sh", "-c", "mkdir busy; while :; do : >busy/$RANDOM$$.x; rm -f busy/*; done")
		start(t, busy)
		t.Logf("under load: %s", appear(t, w, inside, "load"))
		busy.Process.Kill()
		busy.Wait()
		c.Process.Kill()
		c.Wait()
		w.must(t, "rm", "--force", "l")
	})
}

// appear makes two hundred files and says how long each could be read inside.
func appear(t *testing.T, w world, inside, name string) string {
	var all []time.Duration
	for i := range 200 {
		at := filepath.Join(w.Work, fmt.Sprintf("pkg%d/%s%d.key", i%40, name, i))
		begun := time.Now()
		if err := os.WriteFile(at, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		for {
			f, err := os.Open(inside + at)
			if err != nil {
				break
			}
			f.Close()
			time.Sleep(100 * time.Microsecond)
		}
		all = append(all, time.Since(begun))
	}
	slices.Sort(all)
	return fmt.Sprintf("half within %s, all within %s", all[100].Round(10*time.Microsecond), all[199].Round(10*time.Microsecond))
}

// supervisorOf is the process that keeps the sandbox: of this world's program.
func supervisorOf(t *testing.T, w world) string {
	out, _ := exec.Command("pgrep", "-f", "^coffer supervise").Output()
	for _, pid := range strings.Fields(string(out)) {
		if exe, err := os.Readlink("/proc/" + pid + "/exe"); err == nil && exe == w.Coffer {
			return pid
		}
	}
	t.Fatalf("there is no supervisor among %q", out)
	return ""
}

func ticks(pid string) int {
	b, _ := os.ReadFile("/proc/" + pid + "/stat")
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return user + system
}

func resident(pid string) string {
	b, _ := os.ReadFile("/proc/" + pid + "/status")
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}
