package fault

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// A run that is suspended, as by Ctrl-Z, answers nobody. Others say so, and do not hang without a word.
func TestSuspendedRun(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		c := w.Command("run", "--name", "s", "--", "sleep", "1000")
		start(t, c)
		eventually(t, func() error {
			if names := w.inState(t, "running"); len(names) != 1 {
				return fmt.Errorf("running: %v", names)
			}
			return nil
		})
		c.Process.Signal(syscall.SIGSTOP)
		eventually(t, func() error {
			if names := w.inState(t, "suspended"); len(names) != 1 {
				return fmt.Errorf("suspended: %v", names)
			}
			return nil
		})
		w.refuses(t, 125, []string{"is suspended, as by Ctrl-Z", "fg"}, "stop", "s")
		e := w.Command("exec", "-m", "s", "--", "true")
		start(t, e)
		eventually(t, func() error {
			if said := content(e.Stderr); !strings.Contains(said, "sandbox s is suspended") {
				return fmt.Errorf("it says %q", said)
			}
			return nil
		})
		e.Process.Kill()
		finish(t, e)
		w.must(t, "stop", "--force", "s")
		finish(t, c)
		w.alone(t)
		w.tidy(t)
	})
}
