package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

func setxattr(t *testing.T, path, name, value string) {
	t.Helper()
	if err := unix.Lsetxattr(path, name, []byte(value), 0); err == unix.ENOTSUP {
		t.Skip("no user attributes on this file system")
	} else {
		must(t, err)
	}
}

func TestAttributeWhiteouts(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `mkdir d; echo 1 >d/a; echo 1 >d/b; echo 1 >c; : >d/empty`)
	s.sh(t, s.upper, `mkdir d; : >d/a; : >d/empty; : >c; echo full >d/b`)
	setxattr(t, s.upper+"/d", "user.overlay.opaque", "x")
	setxattr(t, s.upper+"/d", "user.overlay.origin", "whatever")
	setxattr(t, s.upper+"/d/a", "user.overlay.whiteout", "")
	setxattr(t, s.upper+"/d/b", "user.overlay.whiteout", "") // not empty: no whiteout
	setxattr(t, s.upper+"/c", "user.overlay.whiteout", "")   // the directory is not marked
	same2(t, "list", brief(s.list(t)), "modified c\ndeleted d/a\nmodified d/b")
}

func TestPlanted(t *testing.T) {
	for _, c := range []struct{ on, name, value string }{
		{"d", "redirect", "/etc"}, {"f", "metacopy", ""}, {"f", "redirect", "x"}, {"", "opaque", "y"},
	} {
		s := newScene(t)
		s.sh(t, s.upper, `mkdir d; : >f`)
		s.list(t) // fine without
		setxattr(t, filepath.Join(s.upper, c.on), "user.overlay."+c.name, c.value)
		if _, err := List(context.Background(), s.lower, s.upper); !errors.Is(err, ErrPlanted) {
			t.Errorf("%s on %q: %v", c.name, c.on, err)
		}
	}
}

// That git has looked at its files is no change, wherever the repository is; all else in a git
// directory is.
func TestOnlyIndex(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `for r in . seen locked deep/er written linked gone; do mkdir -p $r/.git; echo 1 >$r/.git/index; echo 1 >$r/.git/HEAD; done`)
	s.sh(t, s.upper, `for r in . seen deep/er written new; do mkdir -p $r/.git; echo 2 >$r/.git/index; done
		echo 2 >written/.git/HEAD; mkdir -p locked/.git linked/.git gone/.git; ln -s /etc/passwd linked/.git/index; mkfifo gone/.git/index`)
	same2(t, "list", brief(s.list(t)), `modified gone/.git [git]
modified linked/.git [git]
added new
added new/.git [git]
modified written/.git [git]`)
}

// A repository that is replaced, with the directories above it, by one that has nothing but an
// index is a change: what was in it is gone inside. Nothing of it is told by itself.
func TestIndexInsteadOfRepository(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `for r in a b/c d; do mkdir -p $r/.git; echo 1 >$r/.git/HEAD; done`)
	s.sh(t, s.upper, `for r in a b/c d; do mkdir -p $r/.git; done; echo 2 >a/.git/index; echo 2 >b/c/.git/index`)
	setxattr(t, s.upper+"/a", overlayPrefix+"opaque", "y")
	setxattr(t, s.upper+"/b", overlayPrefix+"opaque", "y")
	same2(t, "list", brief(s.list(t)), `modified a/.git [git]
modified b/c/.git [git]`)
}

func TestNeverApplied(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `mkdir -p repo/.git sub; echo 1 >repo/.git/config; echo 1 >repo/f; echo 1 >wasfile`)
	s.sh(t, s.upper, `mkdir .GIT sub sub/.git 'git~1'; echo evil >sub/.git/config; echo 1 >'.git. '; echo 1 >.gitignore
		mkfifo pipe wasfile; echo 1 >suid; chmod 6755 suid; mkdir sgid; chmod 2755 sgid; : >.coffer-tmp-0123456789abcdef`)
	must(t, unix.Mknod(s.upper+"/repo", unix.S_IFCHR, 0)) // whiteout
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: s.upper + "/sock"}))
	want := `added .GIT [git]
added .coffer-tmp-0123456789abcdef [reserved name]
added .git.  [git]
added .gitignore
added git~1 [git]
added pipe [fifo]
deleted repo [not empty]
deleted repo/.git [git]
deleted repo/f
added sgid
added sock [socket]
added sub/.git [git]
added suid
type changed wasfile [fifo]`
	if os.Geteuid() == 0 && unix.Mknod(s.upper+"/zero", unix.S_IFCHR, int(unix.Mkdev(1, 5))) == nil {
		want += "\nadded zero [device]"
	}
	same2(t, "list", brief(s.list(t)), want)
	res := s.apply(t, ApplyOptions{})
	same2(t, "applied", brief(res.Applied), "added sgid\nadded .gitignore\nadded suid\ndeleted repo/f")
	got, err := snapshot(s.lower)
	must(t, err)
	sameTree(t, got, map[string]string{
		".gitignore": "-rw-r--r-- 1\n", "repo": "drwxr-xr-x", "repo/.git": "drwxr-xr-x",
		"repo/.git/config": "-rw-r--r-- 1\n", "sgid": "drwxr-xr-x", "sub": "drwxr-xr-x",
		"suid": "-rwxr-xr-x 1\n", "wasfile": "-rw-r--r-- 1\n",
	})
	if len(res.Notes) != 1 || res.Notes[0].Path != "suid" {
		t.Errorf("notes %v", res.Notes)
	}
}

// TestSymlinkedParents: neither tree's links lead anywhere.
func TestSymlinkedParents(t *testing.T) {
	s := newScene(t)
	victim := t.TempDir()
	must(t, os.WriteFile(victim+"/f", []byte("secret"), 0o644))
	must(t, os.Symlink(victim, s.lower+"/d"))
	s.sh(t, s.upper, `mkdir d; echo evil >d/f; echo evil >d/g`)
	must(t, os.Symlink(victim, s.upper+"/e"))
	same2(t, "list", brief(s.list(t)), "type changed d\nadded d/f\nadded d/g\nadded e")
	res := s.apply(t, ApplyOptions{})
	if len(res.Notes) != 1 || res.Notes[0].Path != "e" {
		t.Errorf("notes: %v", res.Notes)
	}
	got, err := snapshot(victim)
	must(t, err)
	sameTree(t, got, map[string]string{"f": "-rw-r--r-- secret"})
	if info, err := os.Lstat(s.lower + "/d"); err != nil || !info.IsDir() {
		t.Errorf("d is %v %v", info, err)
	}
}

// TestResolution is the wall itself: what tree.open takes and what not.
func TestResolution(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(top+"/in/a/b", 0o755))
	must(t, os.Symlink("a", top+"/in/link"))
	tr, err := openTree("tree", top+"/in", 0)
	must(t, err)
	defer tr.Close()
	for rel, ok := range map[string]bool{
		"": true, "a": true, "a/b": true, "link": false, "link/b": false, "..": false,
		"a/../..": false, "a/b/../../../in": false, "/etc": false, "none": false,
	} {
		f, err := tr.open(rel, listFlags)
		if (err == nil) != ok {
			t.Errorf("open %q: %v", rel, err)
		}
		if err == nil {
			f.Close()
		}
		if _, err := tr.stat(rel); !ok && err == nil && rel != "link" && rel != "none" {
			t.Errorf("stat %q succeeds", rel)
		}
	}
}

// TestRace flips directories and links to a victim under Apply, on both sides.
func TestRace(t *testing.T) {
	s := newScene(t)
	victim := t.TempDir()
	must(t, os.WriteFile(victim+"/f", []byte("untouched"), 0o644))
	must(t, os.WriteFile(victim+"/g", []byte("untouched"), 0o644))
	for _, d := range []string{s.lower, s.upper} {
		must(t, os.Mkdir(d+"/d", 0o755))
		must(t, os.Symlink(victim, d+"/l"))
	}
	s.sh(t, s.upper, `echo evil >d/f; echo evil >d/new; mkdir d/sub; echo evil >d/sub/x`)
	must(t, unix.Mknod(s.upper+"/d/g", unix.S_IFCHR, 0))
	s.sh(t, s.lower, `echo 1 >d/f; echo 1 >d/g`)

	stop := make(chan struct{})
	var flips sync.WaitGroup
	for _, d := range []string{s.lower, s.upper} {
		flips.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					unix.Renameat2(unix.AT_FDCWD, d+"/d", unix.AT_FDCWD, d+"/l", unix.RENAME_EXCHANGE)
				}
			}
		})
	}
	worked := 0
	for i := range 500 {
		res, err := Apply(context.Background(), s.lower, s.upper, ApplyOptions{Force: true})
		if err == nil || len(res.Applied) > 0 {
			worked++
		}
		if i%10 == 0 {
			List(context.Background(), s.lower, s.upper)
			Diff(context.Background(), discardWriter{}, s.lower, s.upper, DiffOptions{})
		}
	}
	close(stop)
	flips.Wait()
	if worked == 0 {
		t.Error("no Apply ever did anything: the race proves nothing")
	}
	got, err := snapshot(victim)
	must(t, err)
	sameTree(t, got, map[string]string{"f": "-rw-r--r-- untouched", "g": "-rw-r--r-- untouched"})
}

type discardWriter struct{}

func (discardWriter) Write(b []byte) (int, error) { return len(b), nil }

func TestSparse(t *testing.T) {
	s := newScene(t)
	f, err := os.Create(s.upper + "/huge")
	must(t, err)
	const size = 1 << 40
	if err := f.Truncate(size); errors.Is(err, unix.EFBIG) {
		t.Skip("this file system has no files of this size")
	} else {
		must(t, err)
	}
	_, err = f.WriteAt([]byte("middle"), size/2)
	must(t, err)
	must(t, f.Close())
	s.apply(t, ApplyOptions{})
	var st syscall.Stat_t
	must(t, syscall.Stat(s.lower+"/huge", &st))
	if st.Size != size || st.Blocks > 1<<14 {
		t.Errorf("size %d, blocks %d", st.Size, st.Blocks)
	}
	g, err := os.Open(s.lower + "/huge")
	must(t, err)
	defer g.Close()
	buf := make([]byte, 8)
	g.ReadAt(buf, size/2)
	if string(buf) != "middle\x00\x00" {
		t.Errorf("middle is %q", buf)
	}
	var out strings.Builder
	must(t, os.Remove(s.lower+"/huge"))
	must(t, Diff(context.Background(), &out, s.lower, s.upper, DiffOptions{}))
	if !strings.Contains(out.String(), "too large to show") || out.Len() > 1000 {
		t.Errorf("diff: %.300s", out.String())
	}
}

// deep makes a chain of directories, deeper than any path can say.
func deep(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func TestDeep(t *testing.T) {
	s := newScene(t)
	deep(t, s.upper, 3000)
	defer Discard(s.upper, "") // t.TempDir's own cleaning is slow on this
	list := s.list(t)
	const reach = (maxPath + 1) / 2
	if n := len(list); n != reach+1 || list[n-1].Skipped != SkipTooLong || list[n-2].Skipped != "" {
		t.Errorf("%d entries, the last %q", n, list[n-1].Skipped)
	}
	res := s.apply(t, ApplyOptions{})
	if len(res.Applied) != reach {
		t.Errorf("applied %d", len(res.Applied))
	}
	must(t, Discard(s.lower, ""))
}

func TestLimit(t *testing.T) {
	s := newScene(t)
	for i := range 20 {
		must(t, os.WriteFile(fmt.Sprint(s.upper, "/", i), nil, 0o644))
	}
	defer func(n int) { maxEntries = n }(maxEntries)
	maxEntries = 20
	s.list(t)
	maxEntries = 19
	if _, err := List(context.Background(), s.lower, s.upper); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v", err)
	}
}

// TestUnreadable runs as a user without privileges: what it may not read is
// reported, not left out.
func TestUnreadable(t *testing.T) {
	if !testbed.AsOrdinary(t) {
		return
	}
	s := newScene(t)
	s.sh(t, s.lower, `mkdir dir`)
	s.sh(t, s.upper, `mkdir dir; echo 1 >dir/f; echo 1 >file; echo 1 >ok; chmod 000 dir file`)
	same2(t, "list", brief(s.list(t)), "modified dir [unreadable]\nadded file [unreadable]\nadded ok")
	same2(t, "applied", brief(s.apply(t, ApplyOptions{}).Applied), "added ok")
	must(t, Discard(s.upper, ""))
}
