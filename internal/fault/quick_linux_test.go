package fault

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/quick/knock"
)

// TestQuick compares the three ways of an exec: what is asked for before coffer is set up, in
// the middle of that, and in the end.
func TestQuick(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "quick", "--", "true")
		for _, script := range []string{
			"true", "echo out", "echo out; echo err >&2", "exit 3", "kill -9 $$", "printf no-newline", "cat", "wc -c",
			"sleep 0.02; echo late", "echo early; sleep 0.02; echo late; exit 4", "seq 20000", "seq 900; echo err >&2",
			"pwd", "env | grep -v ^COLUMNS", "echo $COFFER_A-$HOME-$SHELL", "exec /nowhere", "touch ~/made; ls ~", "id",
		} {
			for _, input := range []string{"", "some input\n"} {
				results := map[string]string{}
				for name, match := range map[string]string{"asked early": "quick", "asked late": "quic", "asked in the end": "quick"} {
					c := w.Command("exec", "-m", match, "--", "sh", "-c", script)
					c.Env = append(c.Env, "COFFER_A=a", "LC_TIME=C")
					if name == "asked in the end" {
						c.Env = append(c.Env, knock.Off+"=1")
					}
					if input != "" {
						c.Stdin = strings.NewReader(input)
					}
					r := finish(t, c)
					results[fmt.Sprintf("%d %q %q", r.code, r.out, r.err)] += name + "; "
				}
				if len(results) != 1 {
					t.Errorf("%s with input %q: %v", script, input, results)
				}
			}
		}
		// A program's last words may be lost, but not silently.
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		for _, off := range []string{"", knock.Off + "=1"} {
			c := w.Command("exec", "-m", "quick", "--", "echo", "words")
			if off != "" {
				c.Env = append(c.Env, off)
			}
			var errs strings.Builder
			c.Stdout, c.Stderr = full, &errs
			if err := c.Run(); c.ProcessState.ExitCode() != 125 || !strings.Contains(errs.String(), "no space left on device") {
				t.Errorf("%q, to a full disk: %v, %s", off, err, errs.String())
			}
		}
		w.must(t, "rm", "--force", "quick")
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
