package git

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
)

// beside plays the inside of a sandbox: programs run on the host, on the private directory.
type beside struct {
	b    *Bridge
	sent atomic.Int64
}

func (h *beside) Open() (io.ReadWriteCloser, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		_ = h.serve(theirs)
	}()
	return ours, nil
}

func (h *beside) serve(conn net.Conn) error {
	r, err := wire.ReadRequest(conn)
	if err != nil {
		return err
	}
	place := strings.NewReplacer(h.b.InsideDir(), string(h.b.private()))
	var args []string
	for _, a := range r.Exec.Argv {
		args = append(args, place.Replace(string(a)))
	}
	c := exec.Command(args[0], args[1:]...)
	for _, v := range r.Exec.Env {
		c.Env = append(c.Env, place.Replace(string(v)))
	}
	c.Env = append(c.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+strings.Join(h.b.Objects, ":"))
	c.Dir = h.b.Tree
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	frames := wire.NewFrameWriter(conn)
	_ = frames.Started()
	go func() {
		defer c.Process.Kill() // who asked is gone, or hears no more
		for from := wire.NewFrameReader(conn); ; {
			kind, body, err := from.Next()
			if err != nil {
				return
			}
			if kind != wire.Message {
				_, _ = in.Write(body)
			} else if m, err := wire.DecodeControl(body); err != nil || m.Deaf != 0 {
				return
			} else if m.EOF {
				in.Close()
			}
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := out.Read(buf)
		h.sent.Add(int64(n))
		if n > 0 {
			_ = frames.Data(wire.Output, buf[:n])
		}
		if err != nil {
			break
		}
	}
	_ = c.Wait()
	return frames.Exited(wire.Exit{Code: c.ProcessState.ExitCode()})
}

// Commits that are too much are fetched once, and not again before a branch has moved.
func TestTooMuchOnce(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	was := maxFetch
	maxFetch = 256 << 10
	t.Cleanup(func() { maxFetch = was })
	git := func(env []string, at string, args ...string) string {
		t.Helper()
		c := exec.Command(find(), append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		c.Dir, c.Env = at, append(environment(), env...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	top := filepath.Join(dir, "top")
	if err := os.MkdirAll(top, 0o755); err != nil {
		t.Fatal(err)
	}
	git(nil, top, "init", "-q", ".")
	git(nil, top, "commit", "-q", "--allow-empty", "-m", "first")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	repo, err := Find(ctx, top)
	if err != nil {
		t.Fatal(err)
	}
	base, err := repo.Base(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := repo.Create(ctx, Options{ID: "abcdefgh", Name: "box", Folder: folder, Tree: filepath.Join(folder, "workspace", "box"), Base: base, Start: top})
	if err != nil {
		t.Fatal(err)
	}
	b.private().unlock()
	inside := &beside{b: b}
	private := []string{"GIT_DIR=" + string(b.private()), "GIT_WORK_TREE=" + b.Tree, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + strings.Join(b.Objects, ":")}
	large := make([]byte, 2<<20)
	for i, x := 0, uint32(1); i < len(large); i++ { // so that nothing makes it smaller
		x = x*1664525 + 1013904223
		large[i] = byte(x >> 24)
	}
	if err := os.WriteFile(filepath.Join(b.Tree, "large"), large, 0o644); err != nil {
		t.Fatal(err)
	}
	git(private, b.Tree, "add", "large")
	git(private, b.Tree, "commit", "-q", "-m", "large")

	sync := func() (sent int64, err error) {
		t.Helper()
		before := inside.sent.Load()
		_, err = b.Sync(ctx, inside)
		return inside.sent.Load() - before, err
	}
	if sent, err := sync(); !errors.Is(err, errLarge) || sent < maxFetch {
		t.Fatalf("%d bytes, %v", sent, err)
	}
	for range 2 {
		if sent, err := sync(); !errors.Is(err, errLarge) || sent > maxFetch/2 {
			t.Errorf("once more: %d bytes, %v", sent, err)
		}
	}
	// Another branch makes it no less, and may make it so once more.
	git(private, b.Tree, "branch", "other")
	git(private, b.Tree, "checkout", "-q", "-b", "small", "HEAD~1")
	git(private, b.Tree, "commit", "-q", "--allow-empty", "-m", "small")
	if sent, err := sync(); !errors.Is(err, errLarge) {
		t.Errorf("another branch: %d bytes, %v", sent, err)
	}
	if sent, err := sync(); !errors.Is(err, errLarge) || sent > maxFetch/2 {
		t.Errorf("another branch once more: %d bytes, %v", sent, err)
	}
	// Without the large one, the rest comes over.
	git(private, b.Tree, "branch", "-q", "-D", "other", b.Branch)
	if sent, err := sync(); err != nil {
		t.Errorf("without it: %d bytes, %v", sent, err)
	}
	if got := git(nil, top, "for-each-ref", "--format=%(refname) %(subject)", "refs/heads/coffer/"); !strings.Contains(got, "small small") {
		t.Errorf("outside: %s", got)
	}
}
