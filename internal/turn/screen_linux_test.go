package turn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/testbed"
)

// The agents' full-screen interfaces, under tmux: no question is asked, a prompt is typed,
// the work is on the branch; it is left to itself and come back to, and its end says how
// to go on. The conversation looks as it does when the same agent runs outside, colours
// included.
func TestScreen(t *testing.T) {
	testbed.Needs(t, "tmux")
	eachReal(t, func(s *stage, a client) {
		p := s.onPane("inside", s.Work, nil, append([]string{s.Coffer, "ai", a.name, "--create", "--name", "one", "--"}, a.extra...))
		inside := s.talk(p, a, func() bool { return strings.HasPrefix(s.git("log", "-1", "--format=%s", "coffer/one"), "made") })
		p.press(leaveKeys, "it is left", p.ended)
		p.see("one goes on; back with 'coffer attach one'")
		p = s.onPane("again", s.Work, nil, []string{s.Coffer, "attach", "one"})
		p.see("DONE") // it is drawn anew
		s.quit(p, a)
		p.see("with 'coffer ai -m one'")
		if got := s.git("show", "coffer/one:made"); got != "hello" {
			s.t.Errorf("the file has %q", got)
		}
		if s.UID != os.Getuid() {
			return // the terminal does not know who
		}
		clone := s.clone()
		env, command := s.outside(a, clone)
		p = s.onPane("outside", clone, env, command)
		outside := s.talk(p, a, func() bool { return strings.HasPrefix(s.git("-C", clone, "log", "-1", "--format=%s"), "made") })
		s.quit(p, a)
		if !slices.Equal(inside, outside) {
			s.t.Errorf("inside the screen shows\n%q\nand outside\n%q", strings.Join(inside, "\n"), strings.Join(outside, "\n"))
		}
	})
}

// leaveKeys leave an agent to itself.
const leaveKeys = "C-\\ C-\\"

// talk types a prompt and waits for what it is to do. It returns what the conversation
// looks like.
func (s *stage) talk(p *pane, a client, done func() bool) []string {
	s.t.Helper()
	p.see(a.ready)
	p.still()
	return s.ask(p, done)
}

// ask is talk with an agent that is known to be there.
func (s *stage) ask(p *pane, done func() bool) []string {
	s.t.Helper()
	// A word that is nobody's key comes first: one that is not yet asked for a prompt may
	// take letters for something else.
	p.press("please ", "the keyboard is read", func() bool { return p.shows("please") })
	p.press("RUN: echo hello >made; git add made; git commit -qm made", "the prompt is on the screen", func() bool { return p.shows("echo hello") })
	p.still()
	p.press("Enter", "the work is done", done)
	p.see("DONE")
	p.still()
	return faces(p.look(), "echo hello", "DONE")
}

// quit ends an agent by the words that it has for that.
func (s *stage) quit(p *pane, a client) {
	s.t.Helper()
	p.still()
	p.press(a.leave, "the way out is on the screen", func() bool { return p.ended() || p.shows(a.leave) })
	p.press("Enter", "it has ended", p.ended)
}

// clone is the repository for who works without coffer.
func (s *stage) clone() string {
	dir := filepath.Join(s.Dir, "clone")
	s.git("clone", "-q", ".", dir)
	s.git("-C", dir, "config", "user.name", "Ada")
	s.git("-C", dir, "config", "user.email", "ada@example.com")
	return dir
}

// outside is how an agent is started without coffer by somebody who has set it up in the
// same way, in a home of its own.
func (s *stage) outside(a client, dir string) (env, command []string) {
	s.t.Helper()
	known := agent.Find(agent.Known(), a.name)
	home := filepath.Join(s.Dir, "outside")
	s.must(os.Mkdir(home, 0o755))
	data, err := os.ReadFile(filepath.Join(s.Home, ".gitconfig"))
	s.must(err)
	s.put(filepath.Join(home, ".gitconfig"), data, 0o644)
	h, err := agent.OpenHome(home)
	s.must(err)
	defer h.Close()
	lookup := func(name string) (string, bool) {
		if name == a.key {
			return secretKey, true
		}
		return "", false
	}
	if known.Files != nil {
		for _, f := range known.Files(known, agent.Scene{
			Home: home, Dir: dir, Guide: filepath.Join(home, agent.Guide), Text: "Be kind.", Has: h.Has,
			Variable: func(name string) string { v, _ := lookup(name); return v },
		}) {
			s.must(h.Put(f))
		}
	}
	s.put(filepath.Join(home, agent.Guide), []byte("Be kind."), 0o644)
	s.own(home)
	env = append(known.Variables(lookup), "HOME="+home)
	for _, v := range known.CA {
		env = append(env, v+"="+filepath.Join(s.Dir, "ca.pem"))
	}
	return env, known.Argv(known, agent.Turn{Extra: a.extra, Dir: dir, Guide: filepath.Join(home, agent.Guide), Text: "Be kind."})
}
