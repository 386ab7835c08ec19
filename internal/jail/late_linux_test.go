package jail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

// What the user makes while the program runs is hidden from it as well: a file, a directory,
// a file in a directory that the program is in, and what replaces one. What matches no rule can be
// read. Another name of one, which the watch does not see, is hidden from the next program, and a
// file that says what to hide is closed to that. Without mounts, it is said that it is not so.
func TestMasksLate(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		s.write(t, filepath.Join(s.Work, "deep", "er", "x"), "x")
		// gone says when a file cannot be read any more.
		const program = `
gone() { n=0; while cat "$1" >/dev/null 2>&1; do n=$((n+1)); [ $n -gt 3000 ] && echo "$1 is seen" && return; sleep 0.02; done; echo "$1 is hidden"; }
when() { n=0; while ! [ -e "$1" ]; do n=$((n+1)); [ $n -gt 3000 ] && echo "no $1" && exit 1; sleep 0.02; done; }
cd deep/er; : >../../started
when ../../one; cat ../../one; gone ../../.env; gone .env; gone ../../.aws/credentials; gone ../../listed
rm -f ../../.env 2>/dev/null; mv ../../.env ../../x 2>/dev/null || echo kept
: >../../seen
when ../../two; gone ../../.env; gone .env; echo own >.env.local; cat ../../plain`
		w := s.policy("sh", "-c", program)
		c := s.command(t, w)
		var out, errs strings.Builder
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill() })
		await := func(name string) {
			t.Helper()
			for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Lstat(filepath.Join(s.Work, name)); err == nil {
					return
				} else if time.Now().After(end) {
					t.Fatalf("%s does not come: %s%s", name, out.String(), errs.String())
				}
			}
		}
		await("started")
		for _, name := range []string{".env", "deep/er/.env", ".aws/credentials", "listed"} {
			s.write(t, filepath.Join(s.Work, name), "secret of "+name+"\n")
		}
		s.write(t, filepath.Join(s.Work, ".sandboxignore"), "/listed\n")
		if err := os.Link(filepath.Join(s.Work, ".env"), filepath.Join(s.Work, "named")); err != nil {
			t.Fatal(err)
		}
		// With all that is in it, for the program reads it when it is there.
		if err := os.Rename(s.write(t, filepath.Join(s.Work, "one.new"), "secret of one\n"), filepath.Join(s.Work, "one")); err != nil {
			t.Fatal(err)
		}
		await("seen")
		// In place, and by another one.
		s.write(t, filepath.Join(s.Work, ".env"), "another\n")
		s.write(t, filepath.Join(s.Work, "fresh"), "another\n")
		if err := os.Rename(filepath.Join(s.Work, "fresh"), filepath.Join(s.Work, "deep", "er", ".env")); err != nil {
			t.Fatal(err)
		}
		s.write(t, filepath.Join(s.Work, "plain"), "plain\n")
		s.write(t, filepath.Join(s.Work, "two"), "")
		_ = c.Wait()
		want := `secret of one
../../.env is hidden
.env is hidden
../../.aws/credentials is hidden
../../listed is hidden
kept
../../.env is hidden
.env is hidden
plain
`
		if out.String() != want || strings.Contains(errs.String(), "could not be hidden") {
			t.Errorf("%s%s", out.String(), errs.String())
		}
		for _, name := range []string{".env", "deep/er/.env"} {
			if got, _ := os.ReadFile(filepath.Join(s.Work, name)); string(got) != "another\n" {
				t.Errorf("%s is %q now", name, got)
			}
		}
		const next = `cat .env deep/er/.env .aws/credentials named listed; echo x >>.sandboxignore; rm -f .sandboxignore; mv .sandboxignore x; cat one`
		if r := s.shell(t, Namespaces, next); r.code != 0 || r.out != "secret of one\n" {
			t.Errorf("the next program: %v", r)
		}
		if got, _ := os.ReadFile(filepath.Join(s.Work, ".sandboxignore")); string(got) != "/listed\n" {
			t.Errorf(".sandboxignore is %q now", got)
		}
		if r := s.run(t, s.policy("true").in(Landlock)); !strings.Contains(r.err, "not closed: files with secrets that you make in the context") {
			t.Errorf("without mounts: %v", r)
		}
	})
}
