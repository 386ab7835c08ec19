package turn

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// pasted is a prompt of two lines. The first follows a word that was typed.
const pasted = "RUN: touch one\nRUN: touch two; git add one two; git commit -qm pasted"

// What is pasted into an agent's full-screen interface arrives as that: lines are not sent
// off one by one, and the whole is one prompt. It looks as it does outside, and so does
// what the agent has asked of the terminal: the mouse, the other screen, the cursor.
func TestScreenPaste(t *testing.T) {
	testbed.Needs(t, "tmux")
	eachReal(t, func(s *stage, a client) {
		p := s.onPane("inside", s.Work, nil, append([]string{s.Coffer, "ai", a.name, "--create", "--name", "one", "--"}, a.extra...))
		inside := s.paste(p, a, func() bool { return s.git("log", "-1", "--format=%s", "coffer/one") == "pasted" })
		s.quit(p, a)
		if s.UID != os.Getuid() {
			return // the terminal does not know who
		}
		clone := s.clone()
		env, command := s.outside(a, clone)
		// TMUX names a socket, so it goes into no sandbox; codex asks the tmux behind it about
		// its mouse.
		p = s.onPane("outside", clone, env, append([]string{"env", "-u", "TMUX"}, command...))
		outside := s.paste(p, a, func() bool { return s.git("-C", clone, "log", "-1", "--format=%s") == "pasted" })
		s.quit(p, a)
		if !slices.Equal(inside, outside) {
			s.t.Errorf("inside the screen shows\n%q\nand outside\n%q", strings.Join(inside, "\n"), strings.Join(outside, "\n"))
		}
	})
}

// paste pastes a prompt and waits for what it is to do. It returns how the terminal was set,
// and what was shown of it.
func (s *stage) paste(p *pane, a client, done func() bool) []string {
	s.t.Helper()
	p.see(a.ready)
	p.still()
	p.press("please ", "the keyboard is read", func() bool { return p.shows("please") })
	p.still()
	before := len(s.model.Asked())
	p.tmux("set-buffer", pasted)
	p.tmux("paste-buffer", "-p")
	s.until("the paste is on the screen", func() bool { return p.shows("git commit") || p.shows("Pasted") || p.shows("pasted") })
	p.still()
	shown := faces(p.look(), "touch", "asted")
	for _, q := range s.model.Asked()[before:] {
		if strings.Contains(q.Body, "touch one") {
			s.t.Error("a line was sent off by itself")
		}
	}
	modes := p.tmux("display", "-p", "mouse #{mouse_any_flag}#{mouse_button_flag}#{mouse_standard_flag}#{mouse_all_flag}#{mouse_sgr_flag}#{mouse_utf8_flag}"+
		" screen #{alternate_on} cursor #{cursor_flag} keypad #{keypad_flag}#{keypad_cursor_flag}")
	p.press("Enter", "the work is done", done)
	p.see("DONE")
	if !s.model.Told("touch two", "RUN: touch one\nRUN: touch two") {
		s.t.Error("it was not one prompt")
	}
	return append(shown, modes)
}
