package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestMaskFlooded: programs that make files to hide as fast as they can go on, these are hidden in
// the end, and a file of the user's among them.
func TestMaskFlooded(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		program := `
: >ready; until [ -e begin ]; do :; done
perl -e 'for $i (1..4000) { open F, ">flood/.env.$i" or die; print F "x"; close F }' || exit 3
: >flooded; n=0
while cat mine/late.key >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 3000 ] || exit 4; sleep 0.02; done
for i in 1 2000 4000; do n=0; while cat flood/.env.$i >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 3000 ] || exit 5; sleep 0.02; done; done
exit 7`
		c := floodPlace(t, w, w.Command(), "sh", "-c", program)
		touch(t, w, "begin")
		secret(t, w, "mine/late.key")
		if r := finish(t, c); r.code != 7 {
			t.Error(r)
		}
	})
}

// TestMaskFull: where there are more files to hide than can be, that is said, and no other program
// starts.
func TestMaskFull(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "f", "--workspace", "direct", "--", "perl", "-e",
			`mkdir "flood"; for $i (1..10100) { open F, ">flood/.env.$i" or die; print F "x"; close F }`)
		w.refuses(t, 125, []string{"more than 10000 files in ", "hide all of it with a line /flood/ in "}, "exec", "-m", "f", "--", "true")
		if err := os.RemoveAll(filepath.Join(w.Work, "flood")); err != nil {
			t.Fatal(err)
		}
		w.must(t, "exec", "-m", "f", "--", "true")
		w.must(t, "rm", "--force", "f")
	})
}

// floodPlace starts a program and waits until it is ready, and the watch with it.
func floodPlace(t *testing.T, w world, c *exec.Cmd, program ...string) *exec.Cmd {
	t.Helper()
	for _, name := range []string{"flood", "mine", "ready", "begin", "flooded"} {
		os.RemoveAll(filepath.Join(w.Work, name))
	}
	for _, dir := range []string{"flood", "mine"} {
		secret(t, w, dir+"/.env")
	}
	c.Args = slices.Concat(c.Args, []string{"run", "--workspace", "direct", "--"}, program)
	start(t, c)
	eventually(t, func() error {
		if !exists(filepath.Join(w.Work, "ready")) {
			return fmt.Errorf("it is not ready: %s", output(c))
		}
		return nil
	})
	return c
}

func touch(t *testing.T, w world, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Work, name), nil, 0o666); err != nil {
		t.Fatal(err)
	}
}
