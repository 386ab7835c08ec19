package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// Who makes a sandbox at a terminal hears what it does not have, unless it has it, or there is
// nothing.
func TestStays(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		sh := func(script string) {
			t.Helper()
			if out, err := b.Program("sh", "-ec", script).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		tries := 0
		create := func(flags ...string) string {
			t.Helper()
			tries++
			args := append([]string{"exec", "--create", "--name", fmt.Sprint("s", tries)}, flags...)
			s := onScreen(t, 24, 100, b.Command(append(args, "--", "echo", "the", "end")...))
			s.end(0)
			return s.text()
		}
		sh(`git init -q . && echo one >a && git add a && git -c user.name=a -c user.email=a@b commit -qm 1`)
		if text := create(); strings.Contains(text, "not committed") {
			t.Errorf("nothing stays: %q", text)
		}
		sh(`echo SECRET=1 >.env`)
		if text := create(); strings.Contains(text, "not committed") {
			t.Errorf("--carry does not bring a secret along either: %q", text)
		}
		sh(`echo two >a; echo new >b; echo x >ignored; echo /ignored >.git/info/exclude`)
		const want = "coffer: 2 files are not committed, and not in the sandbox; see --carry"
		text := create()
		for i := 0; i < 20 && !strings.Contains(text, want); i++ { // it is not waited for for long
			text = create()
		}
		if !strings.Contains(text, want) {
			t.Errorf("not told: %q", text)
		}
		if text := create("--carry"); strings.Contains(text, "not committed") {
			t.Errorf("they are there: %q", text)
		}
		// Who makes several at once hears it once.
		sh(`mkdir -p ~/.config/coffer && printf '[agents.mine]\ncommand = "echo"\n' >~/.config/coffer/config.toml`)
		told := 0
		for i := 0; i < 20 && told == 0; i++ {
			s := onScreen(t, 24, 100, b.Command("ai", "-n", "2", "mine", "x"))
			s.end(0)
			told = strings.Count(s.text(), "not committed")
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		sh(b.Coffer + ` rm --force --delete-branch --all`)
	})
}
