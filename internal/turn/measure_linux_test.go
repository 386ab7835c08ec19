package turn

import (
	"bufio"
	"context"
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
		var out, in, first, own []time.Duration
		for range 7 {
			c := s.Program(filepath.Join(s.Home, ".local/bin/standin"), prompt)
			c.Dir = outside
			c.Env = append(c.Env, "STANDIN_CA="+filepath.Join(s.Dir, "ca.pem"))
			out = append(out, s.time(c))
			// The same agent, in a sandbox that runs: the start is the other number.
			inside := s.Command("exec", "-m", "warm", "-e", "STANDIN_CA="+filepath.Join(s.Home, ".local/share/coffer/ca.pem"), "--", filepath.Join(s.Home, ".local/bin/standin"), prompt)
			in = append(in, s.time(inside))
			own = append(own, s.firstByte(s.Program(filepath.Join(s.Home, ".local/bin/standin"), "--version")))
			first = append(first, s.firstByte(s.Command("ai", "--create", "standin", "--", "--version")))
		}
		t.Logf("a turn of ten steps: outside %v, inside %v: %.2f times", median(out), median(in), float64(median(in))/float64(median(out)))
		t.Logf("coffer ai --create to the agent's first byte: %v, of which the agent's own start is %v", median(first), median(own))
	})
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

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
