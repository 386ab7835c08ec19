package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/testbed"
)

// gaps are things to try, and by which words it is said beforehand that they will work.
var gaps = []struct{ what, said string }{
	{"connect:OUT/sock", "the Unix sockets of your other programs"},
	{"sendto:OUT/dgram", "the Unix sockets of your other programs"},
	{"pair:OUT/dgram", "the Unix sockets of your other programs"},
	{"abstract:ABSTRACT", "the abstract Unix sockets of your other programs"},
	{"chmod:OUT/file", "the modes, owners, times and attributes"},
	{"chown:OUT/file", "the modes, owners, times and attributes"},
	{"utimensat:OUT/file", "the modes, owners, times and attributes"},
	{"setxattr:OUT/file", "the modes, owners, times and attributes"},
	{"write:WORK/.git/hooks/post-commit", "git's directory"},
	{"write:WORK/.git/config", "git's directory"},
	{"create:WORK/.claude/settings.json", "git's directory"},
	{"truncate:OUT/file", ""},
	{"open-truncate:OUT/file", ""},
	{"write:OUT/file", ""},
	{"ptrace:VICTIM", ""},
	{"tiocsti:", ""},
	{"tiocsti64:", ""},
	{"tioclinux:", ""},
	{"int80:", ""},
	{"unmark:", ""}, // by which supervisors know it
	{"open:TERMINAL", ""},
	// The last: the victim is gone then.
	{"kill:VICTIM", "your other programs can be sent signals"},
}

// With every version of Landlock, what is said not to be closed is open, and nothing else
// is; a strict jail starts only if all is closed.
func TestOlderLandlock(t *testing.T) {
	now := confine.LandlockABI()
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		for _, layer := range layers {
			for abi := 1; abi <= now; abi++ {
				for _, unix := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/abi=%d/unix=%v", layer, abi, unix), func(t *testing.T) {
						older(t, newStage(t, b), layer, abi, unix)
					})
				}
			}
		}
	})
}

func older(t *testing.T, s *stage, layer Layer, abi int, unix bool) {
	if layer == Namespaces {
		s.needNamespaces(t)
	}
	fresh := func() (*victims, []string) {
		v := newVictims(t, newStage(t, s.Bed))
		s.write(t, filepath.Join(s.Work, ".git", "config"), "[core]\n")
		s.write(t, filepath.Join(s.Work, ".git", "hooks", "post-commit"), "#!/bin/sh\n")
		s.write(t, filepath.Join(s.Work, ".git", "HEAD"), "ref: refs/heads/main\n")
		s.write(t, filepath.Join(s.Work, ".claude", "x"), "")
		var what []string
		for _, g := range gaps {
			what = append(what, v.fill(g.what))
		}
		return v, what
	}
	v, what := fresh()
	policy := v.policy(append([]string{v.stage.Binary, "jail-try"}, what...)...).in(layer)
	policy.ABI, policy.Unix = abi, unix
	r := v.run(t, policy)
	inside := strings.Split(strings.TrimSpace(r.out), "\n")
	v, what = fresh()
	outside := v.try(t, nil, what)
	if len(inside) != len(gaps) {
		t.Fatal(r)
	}
	for i, g := range gaps {
		said := g.said != "" && strings.Contains(r.err, "not closed: "+g.said)
		if outside[i] != "ok" {
			t.Errorf("%s: %s outside, so it proves nothing", g.what, outside[i])
		}
		if open := inside[i] == "ok"; open != said {
			t.Errorf("%s: %s, and it is said to be open: %v\n%s", g.what, inside[i], said, r.err)
		}
	}
	policy.Strict, policy.Argv = true, []string{"echo", "runs"}
	strict := v.run(t, policy)
	w := (&Policy{Net: NetHost, Unix: unix, Strict: true}).Walls(Host{ABI: abi, Layer: layer, Processes: true})
	if closed := len(w.Gaps) == 0; closed != (strict.code == 0) || closed != strings.Contains(strict.out, "runs") {
		t.Errorf("strict, and all closed: %v\n%v", closed, strict)
	}
	if strict.code != 0 && !strings.Contains(strict.err, w.Gaps[0].String()) {
		t.Errorf("it is not said why: %v", strict)
	}
}

// Where processes have no namespace of their own, it is said that others are seen, and a strict
// jail does not start.
func TestOthersAreSeen(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		for _, bare := range []bool{false, true} {
			w := s.policy("sh", "-c", fmt.Sprintf("tr '\\0' ' ' </proc/%d/cmdline", os.Getpid()))
			w.Bare = bare
			r := s.run(t, w)
			seen := strings.Contains(r.out, filepath.Base(os.Args[0]))
			if said := strings.Contains(r.err, "not closed: the command lines"); seen != bare || said != bare {
				t.Errorf("without a process namespace: %v, but they are seen: %v, and that is said: %v\n%v", bare, seen, said, r)
			}
			w.Strict = true
			if strict := s.run(t, w); strings.Contains(strict.out, filepath.Base(os.Args[0])) {
				t.Errorf("strict: %v", strict)
			}
		}
	})
}
