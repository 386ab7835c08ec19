package changes

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// later waits until the file system's clock has moved on, so that what comes
// next has a later ctime than all before.
func later(t *testing.T, dir string) {
	t.Helper()
	probe := filepath.Join(filepath.Dir(dir), "probe")
	var first int64
	for {
		must(t, os.WriteFile(probe, nil, 0o644))
		must(t, os.Chmod(probe, 0o600))
		var st unix.Stat_t
		must(t, unix.Lstat(probe, &st))
		must(t, os.Remove(probe))
		if now := st.Ctim.Nano(); first == 0 {
			first = now
		} else if now > first {
			return
		}
	}
}

func TestConflict(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `echo 1 >a; echo 1 >b; mkdir d; echo 1 >d/x`)
	later(t, s.lower)
	s.sh(t, s.upper, `echo sandbox >a; echo sandbox >b; echo sandbox >n`)
	must(t, unix.Mknod(s.upper+"/d", unix.S_IFCHR, 0))
	later(t, s.lower)
	if res := s.apply(t, ApplyOptions{DryRun: true}); len(res.Applied) != 5 || len(res.Conflicts) != 0 {
		t.Fatalf("without conflict: %+v", res)
	}
	s.sh(t, s.lower, `echo user >b; echo user >n; echo user >d/y`)

	before, err := snapshot(s.lower)
	must(t, err)
	res, err := Apply(context.Background(), s.lower, s.upper, ApplyOptions{})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || len(res.Applied) != 0 {
		t.Fatalf("%v, applied %v", err, res.Applied)
	}
	same2(t, "conflicts", strings.Join(conflict.Conflicts, " "), "b d/y n")
	after, err := snapshot(s.lower)
	must(t, err)
	sameTree(t, after, before)

	res = s.apply(t, ApplyOptions{Paths: []string{"a"}}) // not in conflict by itself
	same2(t, "one", brief(res.Applied), "modified a")
	res = s.apply(t, ApplyOptions{Force: true})
	if len(res.Conflicts) != 3 {
		t.Errorf("forced over %v", res.Conflicts)
	}
	after, err = snapshot(s.lower)
	must(t, err)
	sameTree(t, after, map[string]string{"a": "-rw-r--r-- sandbox\n", "b": "-rw-r--r-- sandbox\n", "n": "-rw-r--r-- sandbox\n"})
}

// TestSince sees what birth times cannot: the user's edit came before the
// sandbox replaced the file.
func TestSince(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `echo 1 >a`)
	later(t, s.lower)
	start := time.Now()
	later(t, s.lower)
	later(t, s.lower)
	s.sh(t, s.lower, `echo user >a`)
	later(t, s.lower)
	s.sh(t, s.upper, `echo sandbox >a`)
	s.apply(t, ApplyOptions{DryRun: true})
	var conflict *ConflictError
	if _, err := Apply(context.Background(), s.lower, s.upper, ApplyOptions{Since: start}); !errors.As(err, &conflict) {
		t.Errorf("got %v", err)
	}
}

// TestAgain applies, lets the sandbox go on in the same file, and applies again.
func TestAgain(t *testing.T) {
	s := newScene(t)
	odd := "o\xffdd\n"
	must(t, os.WriteFile(s.upper+"/"+odd, []byte("1"), 0o644))
	later(t, s.lower)
	res := s.apply(t, ApplyOptions{})
	text, err := json.Marshal(res.Stamps)
	must(t, err)
	var known Stamps
	must(t, json.Unmarshal(text, &known))
	if !maps.Equal(known, res.Stamps) || len(known) != 1 {
		t.Fatalf("stamps %v, read back %v", res.Stamps, known)
	}
	s.sh(t, s.upper, `for f in *; do printf 2 >>"$f"; done`)
	if _, err := Apply(context.Background(), s.lower, s.upper, ApplyOptions{}); err == nil {
		t.Error("our own write must look like the user's without Known")
	}
	s.apply(t, ApplyOptions{Known: known})
	s.sh(t, s.upper, `for f in *; do printf 3 >>"$f"; done`)
	later(t, s.lower)
	s.sh(t, s.lower, `for f in *; do printf user >"$f"; done`)
	var conflict *ConflictError
	if _, err := Apply(context.Background(), s.lower, s.upper, ApplyOptions{Known: known}); !errors.As(err, &conflict) {
		t.Errorf("the user's edit went unseen: %v", err)
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct{ paths, want string }{
		{"src", "added src\nadded src/a"},
		{"./src/a", "added src\nadded src/a"},
		{"src2/b", "added src2\nadded src2/b"},
		{".", "added src\nadded src/a\nadded src2\nadded src2/b\nadded src2/c"},
		{"src2/b src2/c", "added src2\nadded src2/b\nadded src2/c"},
	} {
		s := newScene(t)
		s.sh(t, s.upper, `mkdir src src2; echo 1 >src/a; echo 1 >src2/b; echo 1 >src2/c`)
		res := s.apply(t, ApplyOptions{Paths: strings.Fields(c.paths)})
		got := brief(res.Applied)
		for line := range strings.SplitSeq(c.want, "\n") {
			if !strings.Contains(got, line+"\n") || len(res.Applied) != strings.Count(c.want, "\n")+1 {
				t.Errorf("%s: applied\n%s", c.paths, got)
			}
		}
	}
	s := newScene(t)
	s.sh(t, s.upper, `echo 1 >src2`)
	for _, bad := range []string{"", "/etc", "..", "../x", "a/../../x"} {
		if _, err := Apply(context.Background(), s.lower, s.upper, ApplyOptions{Paths: []string{bad}}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := Apply(context.Background(), s.lower, s.upper, ApplyOptions{Paths: []string{"src"}}); !errors.Is(err, ErrNoMatch) {
		t.Errorf("src matched src2: %v", err)
	}
}

// TestKilled: what an Apply that was killed left behind is no obstacle.
func TestKilled(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `echo old >a; mkdir d; echo 1 >b`)
	s.sh(t, s.upper, `echo new >a; echo 1 >d; mkdir b`)
	must(t, os.WriteFile(s.lower+"/"+tempName("a"), []byte("half"), 0o600))
	must(t, os.Mkdir(s.lower+"/"+tempName("b"), 0o700))
	must(t, os.Mkdir(s.lower+"/"+tempName("d"), 0o700))
	s.apply(t, ApplyOptions{})
	got, err := snapshot(s.lower)
	must(t, err)
	sameTree(t, got, map[string]string{"a": "-rw-r--r-- new\n", "b": "drwxr-xr-x", "d": "-rw-r--r-- 1\n"})
}

// TestHardLinks: a link that the workspace shares with the outside is replaced,
// not written through, also when only the mode changes.
func TestHardLinks(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `echo 1 >../outside; ln ../outside a; ln ../outside b; ln ../outside c`)
	s.sh(t, s.upper, `echo 2 >a; echo 1 >b; chmod 755 b`)
	must(t, unix.Mknod(s.upper+"/c", unix.S_IFCHR, 0))
	s.apply(t, ApplyOptions{})
	if text, err := os.ReadFile(s.lower + "/../outside"); err != nil || string(text) != "1\n" {
		t.Errorf("outside: %q %v", text, err)
	}
	if info, err := os.Stat(s.lower + "/../outside"); err != nil || info.Mode() != 0o644 {
		t.Errorf("outside: %v %v", info, err)
	}
}

// TestChangedMeanwhile: what is not as it was listed is not applied, and nothing
// of it is left.
func TestChangedMeanwhile(t *testing.T) {
	for _, c := range []struct{ name, where, script string }{
		{"upper written", "upper", `echo more >>f`},
		{"upper is a link", "upper", `rm f; ln -s /etc/passwd f`},
		{"upper is a fifo", "upper", `rm f; mkfifo f`},
		{"upper gone", "upper", `rm f`},
		{"lower written", "lower", `echo user >>f`},
		{"lower is a link", "lower", `rm f; ln -s /etc/passwd f`},
		{"lower is a directory", "lower", `rm f; mkdir f`},
		{"new name taken", "lower", `echo user >n`},
		{"directory filled", "lower", `echo user >d/y`},
		{"directory to be file filled", "lower", `echo user >t/y`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.sh(t, s.lower, `echo 1 >f; mkdir d t`)
			s.sh(t, s.upper, `echo 2 >f; echo 2 >n; echo 2 >t`)
			must(t, unix.Mknod(s.upper+"/d", unix.S_IFCHR, 0))
			w, err := walk(context.Background(), s.lower, s.upper, nil)
			must(t, err)
			defer w.close()
			later(t, s.lower)
			s.sh(t, filepath.Join(filepath.Dir(s.lower), c.where), c.script)
			before, err := snapshot(s.lower)
			must(t, err)
			a := &applier{ctx: context.Background(), w: w, res: Result{Stamps: Stamps{}}}
			sel, _ := newSelection(nil)
			must(t, a.plan(sel))
			err = a.run()
			var part *PartialError
			if !errors.As(err, &part) || !errors.Is(err, ErrChanged) {
				t.Fatalf("got %v", err)
			}
			after, err := snapshot(s.lower)
			must(t, err)
			for _, p := range part.Applied {
				delete(before, p)
				delete(after, p)
			}
			sameTree(t, after, before)
		})
	}
}

func TestOneAtATime(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.upper, `echo 1 >f`)
	f, err := os.Open(s.lower)
	must(t, err)
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	if _, err := Apply(context.Background(), s.lower, s.upper, ApplyOptions{}); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v", err)
	}
	f.Close()
	s.apply(t, ApplyOptions{})
}

func TestCancel(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.upper, `echo 1 >f`)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Apply(ctx, s.lower, s.upper, ApplyOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestCopy copies a file with holes at all places.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	src, err := os.Create(dir + "/src")
	must(t, err)
	defer src.Close()
	const size = 3<<20 + 17
	must(t, src.Truncate(size))
	for _, at := range []int64{0, 1 << 20, 2<<20 + 5, size - 3} {
		_, err := src.WriteAt([]byte("xyz"), at)
		must(t, err)
	}
	want, err := os.ReadFile(dir + "/src")
	must(t, err)
	for _, n := range []int64{0, 1, 1 << 20, size} {
		dst, err := os.Create(dir + "/dst")
		must(t, err)
		must(t, copyFile(context.Background(), dst, src, n))
		must(t, dst.Close())
		if got, err := os.ReadFile(dir + "/dst"); err != nil || string(got) != string(want[:n]) {
			t.Errorf("%d bytes of %d, %v", len(got), n, err)
		}
	}
}

func TestDiscard(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `mkdir d; echo 1 >d/f`)
	s.sandbox(t, `rm d/f; mkdir -p n/m; chmod 000 n/m n; chmod 000 .`)
	deep(t, s.work, 5000)
	victim := t.TempDir()
	must(t, os.WriteFile(victim+"/f", nil, 0o644))
	must(t, os.Symlink(victim, s.work+"/l"))
	must(t, os.MkdirAll(s.upper+".discarded/x", 0o755)) // from a killed Discard
	// A descriptor per level would not do.
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: limit.Max}))
	must(t, Discard(s.upper, s.work))
	must(t, Discard(s.upper, s.work)) // again is no error
	left, err := filepath.Glob(filepath.Dir(s.upper) + "/*")
	must(t, err)
	same2(t, "left", strings.Join(left, " "), s.lower+" "+s.at)
	if _, err := os.Stat(victim + "/f"); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"/", ".", ".."} {
		if err := Discard(bad, ""); err == nil {
			t.Errorf("discarded %s", bad)
		}
	}
}
