package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"

	"os/exec"
)

// A reader that stalls stalls the program, not coffer's memory.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		const size, most = 200_000_000, 100 << 20
		for _, c := range []*exec.Cmd{
			b.Command("run", "--", "sh", "-c", fmt.Sprintf("yes | head -c %d", size)),
			b.Command("exec", "--create", "--", "sh", "-c", fmt.Sprintf("yes | head -c %d", size)),
		} {
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			// Stalled: the first byte is there, and nobody has anything more to do.
			if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			var before []uint64
			still := 0
			eventually(t, func() error {
				now := cpuTimes(b, c)
				if fmt.Sprint(now) == fmt.Sprint(before) {
					still++
				} else {
					still = 0
				}
				if before = now; still < 20 {
					return fmt.Errorf("still busy: %v", now)
				}
				return nil
			})
			for _, p := range coffers(b, c) {
				if rss := p.rss(); rss > most {
					t.Errorf("%s (%d) holds %d MB while its reader stalls", p.args, p.pid, rss>>20)
				}
			}
			n, err := io.Copy(io.Discard, out)
			if err != nil || n != size-1 {
				t.Errorf("%d bytes came after the first (%v), want %d", n, err, size-1)
			}
			waitFor(t, c)
			if c.ProcessState.ExitCode() != 0 {
				t.Error(c.ProcessState)
			}
		}
	})
}

// A program whose reader leaves ends as it would on the host.
func TestReaderLeaves(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		for _, c := range []*exec.Cmd{b.Command("run", "--", "yes"), b.Command("exec", "--create", "--", "yes")} {
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
				t.Fatal(err)
			}
			out.Close()
			waitFor(t, c)
			if code := c.ProcessState.ExitCode(); code != 128+int(syscall.SIGPIPE) {
				t.Errorf("%v: exit code %d, want 141", c.Args[1:], code)
			}
		}
	})
}

// process is one of the host's.
type process struct {
	pid, parent int
	name        string
	args        string // separated by spaces
}

// processes lists what runs on the host, as far as it can be seen.
func processes() (all []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		var p process
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent …, and a name may contain anything.
		s := string(stat)
		open, shut := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
		p.name = s[open+1 : shut]
		p.parent, _ = strconv.Atoi(strings.Fields(s[shut+1:])[1])
		args, _ := os.ReadFile(dir + "/cmdline")
		p.args = strings.TrimRight(strings.ReplaceAll(string(args), "\x00", " "), " ")
		all = append(all, p)
	}
	return all
}

func (p process) file(name string) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, name))
	return string(b)
}

func (p process) env(name string) string {
	for v := range strings.SplitSeq(p.file("environ"), "\x00") {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// sandboxOf says whether a program runs in a sandbox of the user that started c: they
// have the same home.
func (p process) sandboxOf(c *exec.Cmd) bool {
	for _, v := range c.Env {
		if home, ok := strings.CutPrefix(v, "HOME="); ok {
			return p.env("HOME") == home
		}
	}
	return false
}

func (p process) rss() int {
	for line := range strings.SplitSeq(p.file("status"), "\n") {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(kb)[0])
			return n << 10
		}
	}
	return 0
}

// cpu is the time that a process has used so far, in ticks.
func (p process) cpu() uint64 {
	_, rest, ok := strings.Cut(p.file("stat"), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseUint(f[11], 10, 64)
	system, _ := strconv.ParseUint(f[12], 10, 64)
	return user + system
}

// coffers are the command itself, the supervisors of its user, and their guests.
func coffers(b *testbed.Bed, c *exec.Cmd) (mine []process) {
	ours := map[int]bool{c.Process.Pid: true}
	all := processes()
	for _, p := range all {
		if strings.HasPrefix(p.args, "coffer supervise ") && p.env("HOME") == b.Home {
			ours[p.pid] = true
		}
	}
	for _, p := range all {
		if ours[p.pid] || ours[p.parent] && strings.HasPrefix(p.args, "coffer-guest") {
			mine = append(mine, p)
		}
	}
	return mine
}

func cpuTimes(b *testbed.Bed, c *exec.Cmd) (all []uint64) {
	for _, p := range coffers(b, c) {
		all = append(all, p.cpu())
	}
	return all
}
