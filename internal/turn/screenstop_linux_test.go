package turn

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// Ctrl-Z in an agent's full-screen interface has the user back in the shell, with the
// terminal as it was, and fg has the agent back, as outside: it heeds the keyboard, does
// its work, and can be stopped again.
func TestScreenStop(t *testing.T) {
	testbed.Needs(t, "tmux")
	eachReal(t, func(s *stage, a client) {
		// What is waited for must not be in the line that is typed.
		start := filepath.Join(s.Home, "start")
		s.put(start, []byte("#!/bin/sh\nexec "+strings.Join(append([]string{s.Coffer, "ai", a.name, "--create", "--name", "one", "--"}, a.extra...), " ")+"\n"), 0o755)
		p := s.onPane("stop", s.Work, []string{"PS1=shell> "}, []string{"sh", "-i"})
		p.see("shell>")
		p.say(start)
		p.see(a.ready)
		p.still()
		p.stop(a)
		s.ask(p, func() bool { return strings.HasPrefix(s.git("log", "-1", "--format=%s", "coffer/one"), "made") })
		p.stop(a)
		if a.undoes {
			p.press("C-u", "nothing is typed", func() bool { return strings.Contains(p.screen(), a.ready) })
		}
		p.press(a.leave, "the way out is on the screen", func() bool { return strings.Contains(p.screen(), a.leave) })
		p.press("Enter", "it has ended", func() bool { return p.shows("with 'coffer ai -m one'") })
	})
}

// stop stops the agent, says something to the shell, and has the agent go on.
func (p *pane) stop(a client) {
	p.s.t.Helper()
	p.press(a.stop, "the shell is back", func() bool { return strings.Contains(p.screen(), "Stopped") })
	p.say("clear; echo $((6*7)) $(stty | grep -cw -e -icanon -e -echo)")
	p.see("42 0")
	p.say("clear; fg")
	p.still() // not all draw themselves before a key is pressed, outside as inside
}

// say types a line for a shell.
func (p *pane) say(line string) {
	p.tmux("send-keys", "-l", line)
	p.tmux("send-keys", "Enter")
}
