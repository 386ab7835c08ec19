package fault

import (
	"fmt"
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
		w.must(t, "rm", "--force", "quick")
		w.alone(t)
	})
}
