package turn

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A tty is a terminal of today with a program on it: it speaks kitty's keyboard protocol,
// knows bracketed paste and the mouse, and answers what it is asked.
type tty struct {
	s     *stage
	user  *os.File
	ended chan struct{}

	mu   sync.Mutex
	said bytes.Buffer
}

// answers are what the terminal says to questions.
var answers = map[string]string{
	"\x1b[?u":         "\x1b[?0u",
	"\x1b[c":          "\x1b[?62;22c",
	"\x1b[0c":         "\x1b[?62;22c",
	"\x1b[>c":         "\x1b[>1;10;0c",
	"\x1b[>0q":        "\x1bP>|kitty(0.35.2)\x1b\\",
	"\x1b[>q":         "\x1bP>|kitty(0.35.2)\x1b\\",
	"\x1b[?2026$p":    "\x1b[?2026;2$y",
	"\x1b[5n":         "\x1b[0n",
	"\x1b[6n":         "\x1b[1;1R",
	"\x1b]10;?\x07":   "\x1b]10;rgb:ffff/ffff/ffff\x07",
	"\x1b]11;?\x07":   "\x1b]11;rgb:0000/0000/0000\x07",
	"\x1b]10;?\x1b\\": "\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
	"\x1b]11;?\x1b\\": "\x1b]11;rgb:0000/0000/0000\x1b\\",
}

// onTTY starts a program on such a terminal.
func (s *stage) onTTY(name, dir string, env, command []string) *tty {
	s.t.Helper()
	c := s.Program(command[0], command[1:]...)
	c.Dir = dir
	c.Env = append(append(append(c.Env, s.env...), env...), "TERM=xterm-256color", "COLORTERM=truecolor")
	if path, err := lookIn(c.Env, command[0]); err == nil {
		c.Path, c.Err = path, nil
	}
	user, line, err := pty.Open()
	s.must(err)
	s.must(pty.Setsize(user, &pty.Winsize{Rows: 50, Cols: 120}))
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	c.Stdin, c.Stdout, c.Stderr = line, line, line
	s.must(c.Start())
	line.Close()
	y := &tty{s: s, user: user, ended: make(chan struct{})}
	go y.watch()
	go func() { _ = c.Wait(); close(y.ended) }()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("%s was told: %q", name, y.text())
		}
		_ = c.Process.Kill()
		<-y.ended
		user.Close()
	})
	return y
}

// lookIn finds a program by the PATH of an environment.
func lookIn(env []string, name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, e := range slices.Backward(env) {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for dir := range strings.SplitSeq(list, ":") {
				if path, err := exec.LookPath(dir + "/" + name); err == nil {
					return path, nil
				}
			}
			break
		}
	}
	return "", exec.ErrNotFound
}

func (y *tty) watch() {
	buf := make([]byte, 4096)
	answered := 0
	for {
		n, err := y.user.Read(buf)
		if err != nil {
			return
		}
		y.mu.Lock()
		y.said.Write(buf[:n])
		text := y.said.String()
		y.mu.Unlock()
		// In the order of the questions, each once. One that is not all there yet is found
		// the next time.
		for _, at := range sequence.FindAllStringIndex(text[answered:], -1) {
			y.send(answers[text[answered+at[0]:answered+at[1]]])
		}
		if ends := sequence.FindAllStringIndex(text[answered:], -1); len(ends) > 0 {
			answered += ends[len(ends)-1][1]
		}
	}
}

func (y *tty) text() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.said.String()
}

// send types.
func (y *tty) send(keys string) {
	if keys != "" {
		_, _ = y.user.WriteString(keys)
	}
}

// sequence is what programs tell a terminal to do, and ask it.
var sequence = regexp.MustCompile(`\x1b\[[?><=]?[0-9;:]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)`)

// shows says whether a text was shown, wherever its words were put.
func (y *tty) shows(text string) bool {
	plain := sequence.ReplaceAllString(y.text(), "")
	return strings.Contains(squeeze(plain), squeeze(text))
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// still waits until nothing more is said, for as long as it takes to look twice.
func (y *tty) still() {
	was := -1
	y.s.until("the terminal comes to rest", func() bool {
		time.Sleep(300 * time.Millisecond)
		is := len(y.text())
		rest := is == was
		was = is
		return rest
	})
}

// manner is how a program and its terminal have agreed to speak: modes that it sets, such
// as those of the mouse and of pastes, keyboard protocols, and questions.
var manner = regexp.MustCompile(`\x1b\[\?[0-9;]+[hl]|\x1b\[[?><=][0-9;]*u|\x1b\[>[0-9;]*m|\x1b\[[>?]?[0-9;]*[cnq]|\x1b\[\?[0-9;]+\$p|\x1b\]1[0-2];\?`)

// kitty switches kitty's keyboard protocol on.
var kitty = regexp.MustCompile(`\x1b\[>[1-9][0-9]*u`)

// manners are those of the terminal so far, each once. The cursor is hidden while something
// is drawn, or not, as it comes.
func (y *tty) manners() (list []string) {
	all := map[string]bool{}
	for _, m := range manner.FindAllString(y.text(), -1) {
		all[m] = !strings.HasPrefix(m, "\x1b[?25")
	}
	if all["\x1b[>7u"] { // kitty's keys; before a slow machine has agreed to them, others may be asked for
		delete(all, "\x1b[>4;2m")
	}
	maps.DeleteFunc(all, func(_ string, counts bool) bool { return !counts })
	return slices.Sorted(maps.Keys(all))
}

// Agents speak to the terminal as they do outside: they ask for the same modes of mouse,
// paste and keyboard, ask the same questions, and are answered. What is typed then by the
// protocol that they have agreed on arrives, a paste among it.
func TestScreenKeys(t *testing.T) {
	eachReal(t, func(s *stage, a client) {
		y := s.onTTY("inside", s.Work, nil, append([]string{s.Coffer, "ai", a.name, "--create", "--name", "one", "--"}, a.extra...))
		inside := s.typeKeys(y, a, func() bool { return s.git("log", "-1", "--format=%s", "coffer/one") == "pasted" })
		if s.UID != os.Getuid() {
			return
		}
		clone := s.clone()
		env, command := s.outside(a, clone)
		y = s.onTTY("outside", clone, env, command)
		outside := s.typeKeys(y, a, func() bool { return s.git("-C", clone, "log", "-1", "--format=%s") == "pasted" })
		if !slices.Equal(inside, outside) {
			s.t.Errorf("inside the terminal is told\n%q\nand outside\n%q", inside, outside)
		}
		s.t.Logf("%q", inside)
	})
}

// typeKeys pastes a prompt and has it done. It returns how the agent and the terminal speak.
func (s *stage) typeKeys(y *tty, a client, done func() bool) []string {
	s.t.Helper()
	s.until("the screen shows "+a.ready, func() bool { return y.shows(a.ready) })
	y.still()
	before := len(s.model.Asked())
	typed := time.Time{}
	s.until("the keyboard is read", func() bool {
		if time.Since(typed) > pause {
			typed = time.Now()
			y.send("please ")
		}
		return y.shows("please")
	})
	y.still()
	if strings.Contains(y.text(), "\x1b[?1006h") {
		y.send("\x1b[<64;60;20M\x1b[<65;60;20M") // the wheel, up and down: nothing of it is text
	}
	y.send("\x1b[200~" + strings.ReplaceAll(pasted, "\n", "\r") + "\x1b[201~")
	y.still()
	for _, q := range s.model.Asked()[before:] {
		if strings.Contains(q.Body, "touch one") {
			s.t.Error("a line was sent off by itself")
		}
	}
	enter := "\r"
	if kitty.MatchString(y.text()) {
		enter = "\x1b[13u"
	}
	typed = time.Time{}
	s.until("the work is done", func() bool {
		if time.Since(typed) > pause {
			typed = time.Now()
			y.send(enter)
		}
		return done()
	})
	s.until("it is told", func() bool { return y.shows("DONE") })
	if !s.model.Told("touch two", "please RUN: touch one\nRUN: touch two") {
		s.t.Error("it was not one prompt, of what was typed and pasted")
	}
	y.still()
	return y.manners()
}
