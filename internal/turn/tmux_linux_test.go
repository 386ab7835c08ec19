package turn

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A pane is a terminal with a program on it, and somebody who types.
type pane struct {
	s    *stage
	sock string
}

// onPane starts a program on a terminal of its own.
func (s *stage) onPane(name, dir string, env, command []string) *pane {
	s.t.Helper()
	p := &pane{s, filepath.Join(s.Home, "tmux-"+name)}
	c := s.Program("tmux", append([]string{
		"-S", p.sock, "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", ";",
		"set", "-g", "remain-on-exit", "on", ";", "respawn-pane", "-k", "-c", dir, "--",
	}, command...)...)
	c.Env = append(append(c.Env, s.env...), env...)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("start %s on a terminal: %v\n%s", name, err, out)
	}
	s.t.Cleanup(func() { p.tmux("kill-server") })
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the screen of %s:\n%s", name, p.all())
		}
	})
	return p
}

func (p *pane) tmux(args ...string) string {
	out, _ := p.s.Program("tmux", append([]string{"-S", p.sock}, args...)...).CombinedOutput()
	return string(out)
}

// all is what was shown, as far as it has not scrolled away for good.
func (p *pane) all() string { return p.tmux("capture-pane", "-p", "-S", "-200") }

// screen is what is shown now.
func (p *pane) screen() string { return p.tmux("capture-pane", "-p") }

// look is what was shown, with its colours.
func (p *pane) look() string { return p.tmux("capture-pane", "-p", "-e", "-S", "-200") }

func (p *pane) shows(text string) bool { return strings.Contains(p.all(), text) }

func (p *pane) ended() bool { return strings.TrimSpace(p.tmux("display", "-p", "#{pane_dead}")) == "1" }

// see waits for a text.
func (p *pane) see(text string) {
	p.s.t.Helper()
	p.s.until("the screen shows "+text, func() bool { return p.shows(text) })
}

// pause is how long a program may take to heed a key before it is pressed again: nobody
// says when the keyboard is read, and what comes too fast is taken for a paste.
const pause = 3 * time.Second

// press types and waits for what comes of it.
func (p *pane) press(keys, what string, is func() bool) {
	p.s.t.Helper()
	var last time.Time
	p.s.until(what, func() bool {
		if is() {
			return true
		}
		if time.Since(last) > pause {
			last = time.Now()
			switch keys {
			case "Enter", "C-u", "C-z", "C-z C-z", leaveKeys:
				p.tmux(append([]string{"send-keys"}, strings.Fields(keys)...)...)
			default:
				p.tmux("send-keys", "-l", keys)
			}
		}
		return false
	})
}

// still waits until nothing moves any more, for as long as it takes to look twice.
func (p *pane) still() {
	was := ""
	p.s.until("the screen comes to rest", func() bool {
		time.Sleep(300 * time.Millisecond)
		is := p.all()
		rest := is == was
		was = is
		return rest
	})
}

// volatile is what differs from one time to the next: times, tokens, prices. Colours are
// numbers too, and stay.
var volatile = regexp.MustCompile(`\x1b\[[0-9;:]*m|\d+(\.\d+)?(ms|[smkK%])?|[ \t]+`)

// faces are the lines of a screen that have one of some texts in them, as they look, with
// their colours.
func faces(screen string, about ...string) (list []string) {
	for line := range strings.Lines(screen) {
		if !slices.ContainsFunc(about, func(text string) bool { return strings.Contains(line, text) }) {
			continue
		}
		line = strings.ReplaceAll(line, "please ", "") // as often as it took
		if before, _, ok := strings.Cut(line, "DONE"); ok {
			line = before + "DONE" // and the end of a command's output
		}
		line = volatile.ReplaceAllStringFunc(line, func(s string) string {
			switch {
			case s[0] == '\x1b':
				return s
			case strings.TrimSpace(s) == "":
				return " "
			}
			return "N"
		})
		list = append(list, strings.TrimSpace(line))
	}
	return list
}
