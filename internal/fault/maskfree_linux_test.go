package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Hidden names whose files and directories are removed on the host become free in a copy-on-write
// workspace. Programs that read them without pause never get what was there, nor what comes back
// at once or as soon as the name is free, nor the file that has another name still.
func TestMaskedNamesFreed(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		const many = 8
		for i := range many {
			place(t, w, fmt.Sprintf("n%d", i))
		}
		w.must(t, "exec", "--create", "--workspace", "cow", "--name", "f", "--", "true")
		readers := []*exec.Cmd{reader(t, w), reader(t, w)}
		hidden(t, w, "f", "begun.key")
		for i := range many {
			at := fmt.Sprintf("n%d", i)
			remove(t, w, at+"/.aws", at+"/.env.old", at+"/plain")
			if i%2 == 0 {
				secret(t, w, at+"/.aws/x")
				secret(t, w, at+"/.env.old")
				free(t, w, "f", at+"/plain")
				continue
			}
			free(t, w, "f", at+"/.aws", at+"/.env.old", at+"/plain")
			secret(t, w, at+"/.aws/x")
			secret(t, w, at+"/.env.old")
		}
		hidden(t, w, "f", "then.key")
		for i := 0; i < many; i += 2 {
			remove(t, w, fmt.Sprintf("n%d/.aws", i))
			free(t, w, "f", fmt.Sprintf("n%d/.aws", i))
			w.must(t, "exec", "-m", "f", "--", "mkdir", fmt.Sprintf("n%d/.aws", i))
		}
		w.must(t, "stop", "f")
		for _, c := range readers {
			if r := finish(t, c); strings.Contains(r.out, "secret") || !strings.Contains(r.out, "ready") {
				t.Error(r)
			}
		}
		w.must(t, "rm", "--force", "f")
	})
}

// place makes a directory with a hidden directory, hidden files, and another name of one.
func place(t *testing.T, w world, dir string) {
	t.Helper()
	secret(t, w, dir+"/.aws/x")
	secret(t, w, dir+"/.env.old")
	secret(t, w, dir+"/.env")
	if err := os.Link(filepath.Join(w.Work, dir, ".env"), filepath.Join(w.Work, dir, "plain")); err != nil {
		t.Fatal(err)
	}
}

// reader starts a program that tells what it can read of them.
func reader(t *testing.T, w world) *exec.Cmd {
	t.Helper()
	c := w.Command("exec", "-m", "f", "--", "sh", "-c", `echo ready
while :; do for f in n*/.aws n*; do for f in $f/x $f/.env $f/.env.old $f/plain; do
	l=; read l <$f; [ -z "$l" ] || echo "$f: $l"
done; done; done 2>/dev/null`)
	start(t, c)
	eventually(t, func() error {
		if !strings.Contains(content(c.Stdout), "ready") {
			return fmt.Errorf("it is not ready: %s", output(c))
		}
		return nil
	})
	return c
}

// A program stands in a directory since before it was hidden. When that is removed, the program
// finds nothing in it, and nobody sees what comes back. The name is free once the program has left.
func TestMaskedDirectoryStoodIn(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		secret(t, w, "conf/x")
		w.must(t, "exec", "--create", "--workspace", "cow", "--name", "s", "--", "true")
		c := w.Command("exec", "-m", "s", "--", "sh", "-c", `cd conf; echo ready; read go; cat x y; ls -A; echo tried; read go; cd ..; echo left; read go`)
		tell, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		start(t, c)
		says := func(what string) {
			t.Helper()
			eventually(t, func() error {
				if !strings.Contains(content(c.Stdout), what) {
					return fmt.Errorf("it has not said %s: %s", what, output(c))
				}
				return nil
			})
		}
		says("ready")
		hidden(t, w, "s", "begun.key")
		if err := os.WriteFile(filepath.Join(w.Work, ".sandboxignore"), []byte("/conf/\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		mounted := `grep -qF " $PWD/conf " /proc/self/mountinfo`
		until(t, w, "s", mounted)
		remove(t, w, "conf")
		until(t, w, "s", "! "+mounted)
		if r := w.coffer(t, "exec", "-m", "s", "--", "mkdir", "conf"); !strings.Contains(r.err, "File exists") {
			t.Error(r)
		}
		secret(t, w, "conf/x")
		secret(t, w, "conf/y")
		hidden(t, w, "s", "then.key")
		if r := w.coffer(t, "exec", "-m", "s", "--", "cat", "conf/x", "conf/y"); r.out != "" || r.code != 1 {
			t.Error(r)
		}
		fmt.Fprintln(tell, "go")
		says("tried")
		fmt.Fprintln(tell, "go")
		says("left")
		until(t, w, "s", "mkdir conf")
		if r := w.coffer(t, "exec", "-m", "s", "--", "cat", "conf/x", "conf/y"); r.out != "" || r.code != 1 {
			t.Error(r)
		}
		tell.Close()
		if r := finish(t, c); strings.Contains(r.out, "secret") {
			t.Error(r)
		}
		w.must(t, "rm", "--force", "s")
	})
}

// A program moves the directory in which a name is freed, again and again. It keeps its name
// then, or has it freed, and nothing else is uncovered.
func TestMaskedNamesFreedInMotion(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		place(t, w, "n0")
		place(t, w, "n1")
		w.must(t, "exec", "--create", "--workspace", "cow", "--name", "f", "--", "mkdir", "own")
		read := reader(t, w)
		mover := w.Command("exec", "-m", "f", "--", "sh", "-c", `while :; do mv -T own other; mv -T other own; mv -T n0 n2; mv -T n2 n0; done 2>/dev/null`)
		start(t, mover)
		for range 5 {
			secret(t, w, "own/.aws/x")
			hidden(t, w, "f", "begun.key")
			remove(t, w, "own/.aws", "begun.key")
			free(t, w, "f", "begun.key")
		}
		remove(t, w, "n1/.aws", "n1/plain")
		free(t, w, "f", "n1/.aws", "n1/plain")
		secret(t, w, "own/.aws/x")
		until(t, w, "f", "! cat own/.aws/x && ! cat other/.aws/x")
		w.must(t, "stop", "f")
		finish(t, mover)
		if r := finish(t, read); strings.Contains(r.out, "secret") {
			t.Error(r)
		}
		w.must(t, "rm", "--force", "f")
	})
}

// hidden makes a file, and waits until it is hidden: the watch has heard of all before it.
func hidden(t *testing.T, w world, name, file string) {
	t.Helper()
	secret(t, w, file)
	eventually(t, func() error {
		if r := w.coffer(t, "exec", "-m", name, "--", "cat", file); strings.Contains(r.out, "secret") || r.code != 1 {
			return fmt.Errorf("%s is not hidden: %s", file, r)
		}
		return nil
	})
}

// free waits until names are free.
func free(t *testing.T, w world, name string, files ...string) {
	t.Helper()
	for _, file := range files {
		until(t, w, name, "test ! -e "+file)
	}
}

// until waits until a script succeeds inside.
func until(t *testing.T, w world, name, script string) {
	t.Helper()
	eventually(t, func() error {
		if r := w.coffer(t, "exec", "-m", name, "--", "sh", "-c", script); r.code != 0 {
			return fmt.Errorf("%s: %s", script, r)
		}
		return nil
	})
}

// remove removes things of the user's.
func remove(t *testing.T, w world, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(w.Work, name)); err != nil {
			t.Fatal(err)
		}
	}
}
