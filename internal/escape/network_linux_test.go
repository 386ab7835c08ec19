package escape

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/fakenet"
	"github.com/cofferhq/coffer/internal/testbed"
)

// TestEscapeNetwork makes the attempts of the corpus that need a network, for every user
// there is, in a fake internet. Attempt and control speak with the same servers; what
// those were told tells the two apart.
func TestEscapeNetwork(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		program(t)
		internet := fakenet.Enter(t, testbed.Shared(t))
		if internet == nil {
			return
		}
		s := newWires(t, b, internet)
		for _, c := range crossings() {
			s.cross(c)
		}
		for _, scene := range networkScenes {
			scene(s)
		}
		s.r.show(t)
	})
}

// wires is where attempts on the network are made.
type wires struct {
	*stage
	net *fakenet.World
}

func newWires(t *testing.T, b *testbed.Bed, internet *fakenet.World) *wires {
	s := &stage{t: t, bed: b, r: &report{who: fmt.Sprintf("started by uid %d", b.UID)}, probe: filepath.Join(b.Home, ".local/bin/probe")}
	s.here = &world{t: t, bed: b}
	copyTo(t, program(t), s.probe, 0o755)
	s.here.put(filepath.Join(b.Home, ".local/lib/ca.pem"), string(internet.CA), 0o644)
	s.here.own(b.Home)
	for name, turns := range zone {
		internet.Zone.Set(name, turns...)
	}
	return &wires{s, internet}
}

// A crossing is a sandbox, the rules that its user makes, and what is attempted in it.
type crossing struct {
	name  string
	flags []string
	rules []string // of 'coffer policy', without the sandbox
	walls []attempt
	ways  []way
}

// A way is something that has to work.
type way struct{ n, name, do string }

// cross makes a crossing's sandbox and goes through its attempts.
func (s *wires) cross(c crossing) {
	s.t.Helper()
	s.make(c.name, c.flags, c.rules)
	list := trials(c.walls)
	outside := s.controls(list)
	inside := map[string]outcome{}
	for _, root := range []bool{false, true} {
		maps.Copy(inside, s.within(c.name, list, root))
	}
	s.r.settle(list, outside, inside)
	s.pass(c.name, c.ways)
	s.succeeds("rm", "--force", c.name)
}

// pass goes ways in a sandbox. One that is blocked, again and again, is reported like an
// escape.
func (s *wires) pass(sandbox string, ways []way) {
	s.t.Helper()
	var list []trial
	for _, w := range ways {
		list = append(list, trial{attempt{n: w.n, name: w.name, do: w.do}, strings.ReplaceAll(w.n, ".", "-"), false})
	}
	got := s.patiently(list, func(again []trial) map[string]outcome {
		return s.perform(s.bed.Command("exec", "-m", sandbox, "--", s.probe, "batch"), again, func(a trial) string { return a.do })
	}, func(a trial, o outcome) bool { return a.works(o) })
	for _, a := range list {
		o := got[a.id]
		s.r.judge(a.n, "(has to work) "+a.name, true, "-", a.works(o), strings.TrimSpace(o.String()+" "+o.Note))
	}
}

// make makes a sandbox with rules.
func (s *wires) make(name string, flags, rules []string) {
	s.t.Helper()
	s.succeeds(append(append([]string{"exec", "--create", "--name", name}, flags...), "--", "true")...)
	for _, r := range rules {
		s.succeeds(append(append([]string{"policy"}, strings.Fields(r)...), "--sandbox", name)...)
	}
}

// succeeds runs a command of coffer that has to.
func (s *wires) succeeds(args ...string) result {
	s.t.Helper()
	r := s.coffer(s.bed.Work, args...)
	if r.code != 0 {
		s.t.Fatalf("coffer %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r
}

// word is what an attempt says, and nobody else.
func word(id string) string { return "w" + strings.ToLower(id) + "zz" }

func (s *wires) expand(id, text string) string {
	return strings.NewReplacer("{w}", word(id), "{ech}", base64.StdEncoding.EncodeToString(s.net.ECH)).Replace(text)
}

// perform has a command make attempts, and looks afterwards what the servers heard.
func (s *wires) perform(c *exec.Cmd, list []trial, do func(trial) string) map[string]outcome {
	s.t.Helper()
	if len(list) == 0 {
		return nil
	}
	var argvs [][]string
	for _, a := range list {
		argvs = append(argvs, strings.Fields(s.expand(a.id, do(a))))
	}
	orders, err := json.Marshal(argvs)
	must(s.t, err)
	s.net.Log.Reset()
	var said, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(orders), &said, &errs
	runErr := c.Run()
	must(s.t, s.net.Log.Flush())
	all := map[string]outcome{}
	lines := json.NewDecoder(&said)
	for i, a := range list {
		var o outcome
		if err := lines.Decode(&o); err != nil {
			s.t.Fatalf("after %d of %d results: %v, %v\n%s", i, len(list), err, runErr, errs.String())
		}
		heard := a.hurt
		if heard == "" {
			heard = "{w}"
		}
		if heard != "-" {
			o.hurt = 1
			if s.net.Log.Seen(s.expand(a.id, heard)) {
				o.changed = []string{"heard"}
			}
		}
		all[a.id] = o
	}
	return all
}

// within makes attempts in a sandbox, as its user or as its root. One that has met a
// wall, but another than it should, is made again: on a busy machine a program may be
// so late with its first word that it is reset and not told why. One that was answered or
// heard is not.
func (s *wires) within(sandbox string, list []trial, root bool) map[string]outcome {
	s.t.Helper()
	var mine []trial
	for _, a := range list {
		if a.root == root {
			mine = append(mine, a)
		}
	}
	return s.patiently(mine, func(again []trial) map[string]outcome {
		c := s.bed.Command("exec", "-m", sandbox, fmt.Sprintf("--root=%t", root), "--", s.probe, "batch")
		return s.perform(c, again, func(a trial) string { return a.do })
	}, func(a trial, o outcome) bool { return a.held(o) || o.Wall == "" || len(o.changed) > 0 })
}

// patiently makes attempts, and those again, some times, of which it is not enough. Those that
// take long, as they hang, are made again less often.
func (s *wires) patiently(list []trial, do func([]trial) map[string]outcome, enough func(trial, outcome) bool) map[string]outcome {
	s.t.Helper()
	const few, tries, long = 3, 10, time.Minute
	all := map[string]outcome{}
	begun := time.Now()
	for try := range tries {
		if try >= few && time.Since(begun) > long {
			break
		}
		maps.Copy(all, do(list))
		list = slices.DeleteFunc(slices.Clone(list), func(a trial) bool { return enough(a, all[a.id]) })
		if len(list) == 0 {
			break
		}
	}
	return all
}

// controls makes attempts without a sandbox, each by whoever can.
func (s *wires) controls(list []trial) map[string]outcome {
	s.t.Helper()
	all := map[string]outcome{}
	for _, who := range []string{"", "ns", "root"} {
		var group []trial
		for _, a := range list {
			if a.by == who {
				group = append(group, a)
			}
		}
		if who == "root" && os.Getuid() != 0 {
			continue
		}
		maps.Copy(all, s.patiently(group, func(again []trial) map[string]outcome {
			return s.perform(s.outsider(who), again, func(a trial) string { return cmp.Or(a.control, a.do) })
		}, func(a trial, o outcome) bool { return a.works(o) || a.why != "" }))
	}
	return all
}

// outsider makes attempts without a sandbox, as somebody.
func (s *wires) outsider(who string) *exec.Cmd {
	switch who {
	case "ns":
		return s.bed.Program(s.probe, "ns", "batch")
	case "root":
		return exec.Command(s.probe, "batch")
	}
	return s.bed.Program(s.probe, "batch")
}
