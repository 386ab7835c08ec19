package turn

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What a sandbox costs an agent, for people to read: COFFER_MEASURE=1.
func TestMeasure(t *testing.T) {
	if os.Getenv("COFFER_MEASURE") == "" {
		t.Skip("COFFER_MEASURE is not set")
	}
	each(t, func(t *testing.T, s *stage) {
		for i := range 300 {
			s.put(filepath.Join(s.Work, "src", strings.Repeat("d", i%7+1), "file"+string(rune('a'+i%26))), []byte(strings.Repeat("some text\n", 200)), 0o644)
		}
		s.own(s.Work)
		s.git("add", "-A")
		s.git("commit", "-qm", "more")
		var lines []string
		for range 10 {
			lines = append(lines, "RUN: git status --short; grep -r text src | wc -l; ls -R >/dev/null; echo x >>log; git add log; git commit -qm step; git log --oneline | head -3")
		}
		prompt := strings.Join(lines, "\n")
		outside := filepath.Join(s.Dir, "outside")
		s.git("clone", "-q", ".", outside)
		s.run("ai", "standin", "--name", "warm", "RUN: true")
		s.run("exec", "-m", "warm", "--", "true")
		program := filepath.Join(s.Home, ".local/bin/standin")
		native := func() *exec.Cmd {
			c := s.Program(program, prompt)
			c.Dir = outside
			c.Env = append(c.Env, "STANDIN_CA="+filepath.Join(s.Dir, "ca.pem"))
			return c
		}
		inside := func() *exec.Cmd {
			return s.Command("exec", "-m", "warm", "-e", "STANDIN_CA="+filepath.Join(s.Home, ".local/share/coffer/ca.pem"), "--", program, prompt)
		}
		for _, think := range []time.Duration{0, 100 * time.Millisecond} {
			s.model.Before = func() { time.Sleep(think) }
			var out, in, fresh []time.Duration
			for range rounds {
				out = append(out, s.time(native()))
				in = append(in, s.time(inside()))
				fresh = append(fresh, s.time(s.Command("ai", "--create", "--name", "fresh", "standin", prompt)))
				s.run("rm", "--force", "--delete-branch", "fresh") // or there would be one more sandbox in each round
			}
			t.Logf("a turn of ten steps, the model thinks %v: outside %s; in a running sandbox %s, %s; in a new one %s, %s", think, spread(out),
				spread(in), times(in, out), spread(fresh), times(fresh, out))
		}
		s.model.Before = nil
		var first, own []time.Duration
		for range rounds {
			own = append(own, s.firstByte(s.Program(program, "--version")))
			first = append(first, s.firstByte(s.Command("ai", "--create", "standin", "--", "--version")))
		}
		t.Logf("coffer ai --create to the agent's first byte: %s; the agent's own start %s", spread(first), spread(own))
	})
}

// rounds is how often each is measured, one after the other in turns.
const rounds = 20

// spread is the least and the median.
func spread(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("min %.1f p50 %.1f ms", float64(d[0])/1e6, float64(d[len(d)/2])/1e6)
}

// times compares two that are sorted.
func times(d, base []time.Duration) string {
	return fmt.Sprintf("%.2f and %.2f times", float64(d[0])/float64(base[0]), float64(d[len(d)/2])/float64(base[len(base)/2]))
}

func (s *stage) time(c *exec.Cmd) time.Duration {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	start := time.Now()
	out, err := finish(ctx, s, c)
	if err != nil || !strings.Contains(out, "DONE") {
		s.t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	return time.Since(start)
}

func (s *stage) firstByte(c *exec.Cmd) time.Duration {
	s.t.Helper()
	c.Env = append(c.Env, s.env...)
	pipe, err := c.StdoutPipe()
	s.must(err)
	start := time.Now()
	s.must(c.Start())
	_, err = bufio.NewReader(pipe).ReadByte()
	took := time.Since(start)
	s.must(err)
	s.must(c.Wait())
	return took
}
