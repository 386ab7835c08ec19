package jail

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// What is explained is what would be applied: on a host that lets nobody mount a /proc of
// his own, because something lies over a part of the one there is, there is no process
// namespace, and neither is one spoken of.
func TestExplainCoveredProc(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		testbed.Needs(t, "unshare")
		s := newStage(t, b)
		// The kernel counts what lies there if it is held by a user namespace above.
		for _, cover := range []string{"true", "mount -t tmpfs none /proc/irq"} {
			w := s.policy("touch", s.Work+"/ran")
			w.Explain = true
			jail := s.command(t, w)
			if r := finish(t, s.Program("unshare", "-r", "-m", "sh", "-c", cover)); r.code != 0 {
				t.Skipf("no namespaces to try it in: %v", r)
			}
			c := s.Program("unshare", append([]string{"-r", "-m", "sh", "-c", cover + ` && exec unshare -r -m "$0" "$@"`}, jail.Args...)...)
			r := finish(t, c)
			covered := cover != "true"
			wall, gaps, _ := strings.Cut(r.err, "\n")
			if r.code != 0 || !strings.HasPrefix(wall, "the wall: ") || strings.Contains(wall, "a process namespace") == covered ||
				strings.Contains(gaps, "the command lines") != covered {
				t.Errorf("covered: %v: %v", covered, r)
			}
			if _, err := exec.Command("ls", s.Work+"/ran").Output(); err == nil {
				t.Error("it was run")
			}
		}
	})
}
