package fault

import (
	"os"
	"strings"
	"testing"
)

// A program's last words may be lost, but not silently.
func TestLastWordsLost(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "full", "--", "true")
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		c := w.Command("exec", "-m", "full", "--", "echo", "words")
		var errs strings.Builder
		c.Stdout, c.Stderr = full, &errs
		if err := c.Run(); c.ProcessState.ExitCode() != 125 || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("to a full disk: %v, %s", err, errs.String())
		}
		w.must(t, "rm", "--force", "full")
		w.alone(t)
	})
}

// Where output and errors go to the same place, they stay in the order of the program's.
func TestInOrder(t *testing.T) {
	const script = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done"
	const want = "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n"
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "order", "--", "true")
		for _, args := range [][]string{{"run", "--"}, {"exec", "-m", "order", "--"}, {"exec", "-m", "orde", "--"}} {
			for range 5 {
				c := w.Command(append(args, "sh", "-c", script)...)
				c.Stdout = kept(t)
				c.Stderr = c.Stdout
				if r := finish(t, c); r.code != 0 || r.out != want {
					t.Errorf("%v: %d, %q", args, r.code, r.out)
				}
			}
		}
		w.must(t, "rm", "--force", "order")
	})
}
