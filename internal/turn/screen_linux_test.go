package turn

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The agents' full-screen interfaces, under tmux: no question is asked, a prompt is typed,
// the work is on the branch, and leaving says how to come back.
func TestScreen(t *testing.T) {
	dir := os.Getenv("COFFER_AGENTS")
	if _, err := exec.LookPath("tmux"); err != nil || dir == "" {
		t.Skip("needs tmux, and COFFER_AGENTS: see 'make test-agents'")
	}
	for _, a := range real {
		leave := map[string]string{"claude": "/exit", "pi": "/quit"}[a.name]
		bin := filepath.Join(dir, a.name, "node_modules", ".bin")
		if leave == "" || !exists(filepath.Join(bin, a.name)) {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			each(t, func(t *testing.T, s *stage) {
				s.env = append(s.env, a.key+"=sk-test-0123456789012345678901234567890123456789", "PATH="+bin+":"+os.Getenv("PATH"))
				s.onTmux(leave, append([]string{s.Coffer, "ai", a.name, "--create", "--name", "one", "--"}, a.extra...))
			})
		})
	}
}

func (s *stage) onTmux(leave string, command []string) {
	t := s.t
	sock := filepath.Join(s.Home, "tmux")
	tmux := func(args ...string) string {
		c := s.Program("tmux", append([]string{"-S", sock, "-f", "/dev/null"}, args...)...)
		c.Env = append(c.Env, s.env...)
		out, _ := c.CombinedOutput()
		return string(out)
	}
	defer tmux("kill-server")
	tmux(append([]string{"new-session", "-d", "-x", "120", "-y", "40", ";", "set", "-g", "remain-on-exit", "on", ";", "respawn-pane", "-k", "--"}, command...)...)
	seen := func(text string) func() bool {
		return func() bool { return strings.Contains(tmux("capture-pane", "-p", "-S", "-200"), text) }
	}
	defer func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", tmux("capture-pane", "-p", "-S", "-200"))
		}
	}()
	s.until("the agent is there", func() bool {
		return seen("coffer: ")() || strings.Contains(tmux("display", "-p", "#{pane_title}"), "one")
	})
	// Typed again until it is heard: nobody says when the keyboard is read.
	s.until("the prompt is on the screen", func() bool {
		if seen("echo hello")() {
			return true
		}
		tmux("send-keys", "-l", "RUN: echo hello >made; git add made; git commit -qm made")
		return false
	})
	s.until("the commit is on the branch", func() bool {
		if strings.HasPrefix(s.git("log", "-1", "--format=%s", "coffer/one"), "made") {
			return true
		}
		tmux("send-keys", "Enter")
		return false
	})
	s.until("the agent has said so", seen("DONE"))
	s.until("it has ended", func() bool {
		if strings.TrimSpace(tmux("display", "-p", "#{pane_dead}")) == "1" {
			return true
		}
		tmux("send-keys", "-l", leave)
		tmux("send-keys", "Enter")
		return false
	})
	if !seen("go on with 'coffer ai -m one'")() {
		t.Error("it is not said how to come back")
	}
}
