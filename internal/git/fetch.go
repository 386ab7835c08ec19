package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// maxFetch bounds what one fetch takes out of a sandbox. Only tests have another bound.
var maxFetch int64 = 4 << 30

// errLarge is that there is more to fetch.
var errLarge = ui.Error("what was committed is too much to be fetched (4 GiB at most)", "take large files out of the commits, inside")

// maxWords bounds what git inside may say besides.
const maxWords = 16 << 10

// farEnd is the descriptor on which git on the host hears the sandbox: a socket, because git
// and its children hold it, and only a socket can be told that there is no more to come
// while others hold it.
const farEnd = 3

func unixConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("not a socket")
	}
	return conn, nil
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
	if ours, err = unixConn(os.NewFile(uintptr(fds[0]), "git")); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// fetch brings over what refspecs name inside, which is to land in the quarantine. It returns the
// refs that landed, and those of the host below other prefixes. No ref of the host has moved then.
func (b *Bridge) fetch(ctx context.Context, o wire.Opener, refspecs []string, prefixes ...string) (refs map[string]tip, err error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	q, err := b.quarantine()
	if err != nil {
		return nil, err
	}
	defer q.remove()
	if err := b.fetchInto(ctx, q, o, refspecs); err != nil {
		return nil, err
	}
	if refs, err = b.list(ctx, q.git(b), append(prefixes, landed)...); err != nil {
		return nil, err
	}
	return refs, q.release(ctx, b)
}

// fetchInto has git on the host fetch. It checks every object; git inside is a stranger to it, as a
// server on the internet would be.
func (b *Bridge) fetchInto(ctx context.Context, q quarantine, o wire.Opener, refspecs []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patienceFetch, errors.New("it took too long"))
	defer cancel()
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close()
	h := q.git(b)
	// What the sandbox hears of the host's refs is what it gave itself.
	h.config = []string{
		"fetch.fsckObjects=true", "transfer.fsckObjects=true", "transfer.bundleURI=false", "fetch.uriProtocols=",
		"protocol.allow=never", "protocol.fd.allow=always", "protocol.version=2", "core.fsync=none",
		"core.sshCommand=false", "credential.helper=", "remote.pushDefault=",
	}
	if b.Base == "" { // then there may be no ref of ours to tell about yet
		h.config = append(h.config, "fetch.negotiationAlgorithm=noop")
	}
	c := h.command(ctx, append([]string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--force", "--no-show-forced-updates", "--no-write-commit-graph",
		"--negotiation-tip=" + b.own() + "*",
		fmt.Sprintf("fd::%d", farEnd)}, refspecs...)...)
	words := &limited{left: maxWords, drop: true}
	c.Stderr = words
	c.ExtraFiles = []*os.File{theirs}
	err = start(c)
	theirs.Close()
	if err != nil {
		return missing(err)
	}
	inside := make(chan error, 1)
	go func() {
		inside <- b.upload(ctx, o, ours)
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
func (b *Bridge) upload(ctx context.Context, o wire.Opener, pipe io.ReadWriter) error {
	words := &limited{left: maxWords, drop: true}
	out := &counted{w: &refCount{w: pipe}, left: maxFetch}
	exit, err := run(ctx, o, b.program("upload-pack", "--strict", b.InsideDir()), pipe, out, words)
	if out.left < 0 {
		return errLarge
	}
	if errors.Is(err, errRefs) {
		return errRefs
	}
	if err == nil && exit != 0 {
		err = fmt.Errorf("git inside ended with %d: %s", exit, strings.TrimSpace(words.String()))
	}
	return err
}

// counted passes on so much and then fails.
type counted struct {
	w    io.Writer
	left int64
}

func (c *counted) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, errLarge
	}
	return c.w.Write(p)
}

// maxFetchedRefs bounds how many refs the sandbox may have: each becomes one of the host's.
const maxFetchedRefs = 20000

var errRefs = fmt.Errorf("the sandbox has more than %d branches", maxFetchedRefs)

// refCount passes on what git upload-pack says, and fails when it names too many refs. What it
// says are lines, each behind its length in four hexadecimal digits; the pack is in lines too.
type refCount struct {
	w     io.Writer
	head  []byte // of the line, up to 4 bytes
	left  int    // bytes of the line that are to come
	fresh bool   // none of them has come
	n     int    // lines that are not of the pack
}

func (c *refCount) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if c.left == 0 {
			n := min(len(rest), 4-len(c.head))
			c.head, rest = append(c.head, rest[:n]...), rest[n:]
			if len(c.head) < 4 {
				break
			}
			size, err := strconv.ParseUint(string(c.head), 16, 16)
			if err != nil {
				return 0, fmt.Errorf("git upload-pack inside sent a line of length %q", c.head)
			}
			c.head, c.left, c.fresh = c.head[:0], max(int(size)-4, 0), true
			continue
		}
		if c.fresh && rest[0] > 3 { // below are the channels of the pack
			if c.n++; c.n > maxFetchedRefs {
				return 0, errRefs
			}
		}
		c.fresh = false
		n := min(len(rest), c.left)
		c.left, rest = c.left-n, rest[n:]
	}
	return c.w.Write(p)
}

// program is git inside, which minds nothing but the private directory's own settings.
func (b *Bridge) program(args ...string) wire.Exec { return b.programAt(b.At(), args...) }

// programAt is program with another directory for a working tree.
func (b *Bridge) programAt(tree string, args ...string) wire.Exec {
	e := wire.Exec{Dir: tree}
	for _, a := range append([]string{"git"}, args...) {
		e.Argv = append(e.Argv, []byte(a))
	}
	for _, v := range []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LC_ALL=C",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_PROTOCOL=version=2",
		"GIT_DIR=" + b.InsideDir(), "GIT_WORK_TREE=" + tree,
	} {
		e.Env = append(e.Env, []byte(v))
	}
	return e
}

// run runs a program inside. in may be nil.
func run(ctx context.Context, o wire.Opener, e wire.Exec, in io.Reader, out, errs io.Writer) (status int, err error) {
	e.NoInput = in == nil
	p, err := wire.Start(o, e)
	if err != nil {
		return 0, err
	}
	var once sync.Once
	end := func() { once.Do(p.Close) }
	defer end()
	stop := context.AfterFunc(ctx, end)
	defer stop()
	if err := p.WaitStart(); err != nil {
		return 0, err
	}
	if in != nil {
		go func() {
			io.Copy(p, in)
			_ = p.CloseInput()
		}()
	}
	exit, err := p.Wait(out, errs)
	return exit.Status(), err
}

// ask runs git inside for a short answer.
func (b *Bridge) ask(ctx context.Context, o wire.Opener, args ...string) (answer string, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, errs := &limited{left: maxWords, drop: true}, &limited{left: maxWords, drop: true}
	status, err = run(ctx, o, b.program(args...), nil, out, errs)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if status != 0 {
		return strings.TrimSpace(errs.String()), status, err
	}
	return strings.TrimSuffix(out.String(), "\n"), status, err
}
