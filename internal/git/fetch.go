package git

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// maxFetch bounds what one fetch takes out of a sandbox. Only tests have another bound.
var maxFetch int64 = 4 << 30

var errLarge = ui.Error("what was committed is too much to be fetched (4 GiB at most)", "take large files out of the commits, inside")

// A quarantine is a directory that git on the host fetches into: a git directory that shares
// everything with the user's but has refs and objects of its own. Git checks objects only
// when they come, and some of its checks come last; what it has once it trusts. So nothing
// is among the user's objects before all of it was found good.
type quarantine struct {
	*Bridge
	far far
	dir string
}

// landed is where refs are in a quarantine: git keeps those apart for every worktree.
const landed = "refs/worktree/"

// fetch fetches refspecs from inside, which are to land in a quarantine, and releases them. It
// returns the refs that landed, and those of the host below other prefixes. No ref of the
// host has moved then.
func (b *Bridge) fetch(ctx context.Context, f far, refspecs []string, prefixes ...string) (refs map[string]Ref, err error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	q := quarantine{Bridge: b, far: f}
	// By this name git knows it for what it is, if we are killed.
	if q.dir, err = os.MkdirTemp(b.Objects[0], "tmp_objdir-coffer-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(q.dir)
	if err := q.make(); err != nil {
		return nil, err
	}
	if err := q.fetch(ctx, refspecs); err != nil {
		return nil, err
	}
	all, err := q.git().list(ctx, append(prefixes, landed)...)
	if err != nil {
		return nil, err
	}
	if err := q.release(ctx); err != nil {
		return nil, fmt.Errorf("store what was fetched: %w", err)
	}
	return byName(all), nil
}

func (q *quarantine) make() error {
	dirs := []string{"objects/pack"}
	if isDir(filepath.Join(q.Common, "reftable")) {
		dirs = append(dirs, "reftable")
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(q.dir, dir), 0o755); err != nil {
			return err
		}
	}
	return writeFiles(q.dir, map[string]string{"HEAD": "ref: refs/heads/main\n", "commondir": q.Common + "\n"})
}

func (q *quarantine) objects() string { return filepath.Join(q.dir, "objects") }

// git runs in it.
func (q *quarantine) git() host {
	return host{dir: "/", where: []string{"--git-dir=" + q.dir}, objects: q.objects(),
		env: []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoteObjects(q.Objects[0])}}
}

// quoteObjects makes one word of a path in a list of directories.
func quoteObjects(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// farEnd is the descriptor on which git on the host hears the sandbox: a socket, because git
// and its children hold it, and only a socket can be shut down while others hold it.
const farEnd = 3

// fetch has git on the host fetch, and check every object.
func (q *quarantine) fetch(ctx context.Context, refspecs []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patienceFetch, errors.New("it took too long"))
	defer cancel()
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close()
	h := q.git()
	h.config = []string{
		"fetch.fsckObjects=true", "transfer.fsckObjects=true", "transfer.bundleURI=false", "fetch.uriProtocols=",
		"protocol.allow=never", "protocol.fd.allow=always", "protocol.version=2",
		"core.sshCommand=false", "credential.helper=", "remote.pushDefault=",
	}
	if q.Base == "" { // there may be no ref of ours yet
		h.config = append(h.config, "fetch.negotiationAlgorithm=noop")
	}
	// The sandbox hears only of those refs of the host that it gave itself.
	c := h.command(ctx, append([]string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--force", "--no-show-forced-updates", "--no-write-commit-graph",
		"--negotiation-tip=" + q.own() + "*",
		fmt.Sprintf("fd::%d", farEnd)}, refspecs...)...)
	words := &limited{left: maxWords, drop: true}
	c.Stderr, c.ExtraFiles = words, []*os.File{theirs}
	err = start(c)
	theirs.Close()
	if err != nil {
		return missing(err)
	}
	inside := make(chan error, 1)
	go func() {
		inside <- q.upload(ctx, ours)
		_ = ours.CloseWrite()
	}()
	err = c.Wait()
	cancelled := context.Cause(ctx)
	cancel()
	ours.Close()
	far := <-inside
	switch {
	case err == nil:
		return nil
	case cancelled != nil:
		return fmt.Errorf("fetch from the sandbox: %w", cancelled)
	case errors.Is(far, errLarge), errors.Is(far, errRefs):
		return far
	}
	err = &Error{Args: []string{"fetch"}, Err: err, Said: words.String()}
	if far != nil && words.Len() == 0 {
		err = fmt.Errorf("%w (%w)", err, far)
	}
	return err
}

// upload runs git-upload-pack inside, at the other end of the pipe.
func (q *quarantine) upload(ctx context.Context, pipe io.ReadWriter) error {
	words, out := &limited{left: maxWords, drop: true}, &upload{w: pipe, left: maxFetch}
	exit, err := q.far.run(ctx, q.far.program(q.At(), "upload-pack", "--strict", q.InsideDir()), pipe, out, words)
	switch {
	case out.failed != nil:
		return out.failed
	case err == nil && exit != 0:
		return fmt.Errorf("git inside ended with %d: %s", exit, strings.TrimSpace(words.String()))
	}
	return err
}

// socketPair is a connection with both its ends.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(fds[1]), "sandbox")
	f := os.NewFile(uintptr(fds[0]), "git")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c.(*net.UnixConn), theirs, nil
}

// maxFetchedRefs bounds how many refs the sandbox may have: each becomes one of the host's.
const maxFetchedRefs = 20000

var errRefs = fmt.Errorf("the sandbox has more than %d branches", maxFetchedRefs)

// upload passes on what git upload-pack says, and fails when it is too much, or names too
// many refs. It consists of lines, each behind its length in four hexadecimal digits; the
// pack is in lines too.
type upload struct {
	w      io.Writer
	left   int64
	failed error

	head  []byte // of the line, up to 4 bytes
	rest  int    // bytes of the line that are to come
	fresh bool   // none of them has come
	n     int    // lines that are not of the pack
}

func (u *upload) Write(p []byte) (int, error) {
	if u.left -= int64(len(p)); u.left < 0 {
		u.failed = errLarge
	}
	for rest := p; len(rest) > 0 && u.failed == nil; {
		if u.rest == 0 {
			n := min(len(rest), 4-len(u.head))
			u.head, rest = append(u.head, rest[:n]...), rest[n:]
			if len(u.head) < 4 {
				break
			}
			size, err := strconv.ParseUint(string(u.head), 16, 16)
			if err != nil {
				u.failed = fmt.Errorf("git upload-pack inside sent a line of length %q", u.head)
			}
			u.head, u.rest, u.fresh = u.head[:0], max(int(size)-4, 0), true
			continue
		}
		if u.fresh && rest[0] > 3 { // below are the channels of the pack
			if u.n++; u.n > maxFetchedRefs {
				u.failed = errRefs
			}
		}
		u.fresh = false
		n := min(len(rest), u.rest)
		u.rest, rest = u.rest-n, rest[n:]
	}
	if u.failed != nil {
		return 0, u.failed
	}
	return u.w.Write(p)
}

// A small pack becomes loose objects, as if the user had committed: an agent commits often, and
// every git looks into every pack.
const (
	maxLoose      = 100 // objects, as in git
	maxLooseBytes = 1 << 20
	patienceLoose = 5 * time.Second // a pack of a few bytes may have objects of any size
)

// loosen has git store a small pack as loose objects of the user's, and removes it.
func (q *quarantine) loosen(ctx context.Context, pack string) error {
	f, err := os.Open(pack)
	if err != nil {
		return err
	}
	defer f.Close()
	var head [12]byte
	info, err := f.Stat()
	if err == nil {
		_, err = f.ReadAt(head[:], 0)
	}
	if err != nil || info.Size() > maxLooseBytes || binary.BigEndian.Uint32(head[8:]) >= maxLoose {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patienceLoose)
	defer cancel()
	if _, err := q.refs().read(ctx, f, "unpack-objects", "-q"); err != nil {
		return nil // it stays a pack
	}
	files, err := filepath.Glob(escapeGlob(strings.TrimSuffix(pack, "pack")) + "*")
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// release moves what was fetched and checked among the user's objects, as git itself does:
// the index of a pack comes last, because it makes the pack visible.
func (q *quarantine) release(ctx context.Context) error {
	packs, err := filepath.Glob(escapeGlob(q.objects()) + "/pack/*.pack")
	for _, pack := range packs {
		err = errors.Join(err, q.loosen(ctx, pack))
	}
	if err != nil {
		return err
	}
	var files []string
	err = fs.WalkDir(os.DirFS(q.objects()), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	last := func(name string) int { return strings.Count(name, ".idx") }
	slices.SortStableFunc(files, func(a, b string) int { return last(a) - last(b) })
	for _, name := range files {
		from, to := filepath.Join(q.objects(), name), filepath.Join(q.Objects[0], name)
		if exists(to) {
			continue // the same object
		}
		if err := sameDir(filepath.Dir(from), filepath.Dir(to)); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return nil
}

// sameDir makes a directory with the mode of another, unless it is there.
func sameDir(like, dir string) error {
	info, err := os.Stat(like)
	if err != nil || isDir(dir) {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, info.Mode())
}

// Fetch fetches one commit that a program inside has made, and of which no branch need know.
func (b *Bridge) Fetch(ctx context.Context, o wire.Opener, commit string) error {
	if validCommit(commit) == "" {
		return fmt.Errorf("%q is not the name of a commit", commit)
	}
	if _, err := b.fetch(ctx, far{&b.State, o}, []string{commit + ":" + landed + "hook"}); err != nil {
		return err
	}
	if why, err := b.unfit(ctx, commit); err != nil || why != "" {
		return cmp.Or(err, errors.New("what was staged inside was not brought over: "+why))
	}
	return b.ownRefs().move(ctx, b.why(), fmt.Sprintf("update %shook %s\n", b.own(), commit))
}
