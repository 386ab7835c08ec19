package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
)

// patience is how long git on the host may take, and patienceFetch how long it may wait
// for the sandbox.
const (
	patience      = 5 * time.Minute
	patienceFetch = 2 * time.Minute
)

// maxOutput bounds what is read of git's answers.
const maxOutput = 256 << 20

// hardened is said to every git that we run: nothing of the repository is to be run, and
// nothing is to be done besides what was asked for.
var hardened = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false",
	"core.splitIndex=false", "index.sparse=false",
	"gc.auto=0", "maintenance.auto=false", "fetch.writeCommitGraph=false",
	"submodule.recurse=false", "fetch.recurseSubmodules=false", "diff.ignoreSubmodules=all",
	"status.submoduleSummary=false", "advice.detachedHead=false",
	"core.alternateRefsCommand=:", // which every fetch into a repository with alternates runs
	// For git that looks for a repository: one must not be found in a directory of
	// files. It counts only from here and from the user's own config.
	"safe.bareRepository=explicit",
}

// environment is ours, without what would send git elsewhere.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GIT_") && !slices.Contains(keptVariables, name) || name == "LC_ALL" || name == "LANGUAGE" || name == "PATH"
	})
	return append(env, "PATH="+strings.Join(programs, ":"), "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_ASKPASS=true", "SSH_ASKPASS=true")
}

// keptVariables say where the user's own config is.
var keptVariables = []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"}

// programs are the directories in which git, and what it starts, is looked for. Not PATH:
// a workspace may be in it.
var programs = []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin", "/run/current-system/sw/bin"}

// find is where git is.
var find = sync.OnceValue(func() string {
	for _, dir := range programs {
		path := filepath.Join(dir, "git")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
})

// host is git on the host's side of the wall.
type host struct {
	dir    string   // where it runs
	where  []string // --git-dir and --work-tree; none to look around
	locks  bool     // it may write the index
	config []string // besides what is hardened
	index  string   // the index to use, if not git's own choice
	// objects is where new objects go, and the only place they are looked for in, if it
	// is not the repository's own.
	objects string
	mind    bool     // files are read or written: no filters of the repository's own
	env     []string // besides ours
	far     bool     // it may reach other machines
}

// command prepares git. The caller starts it.
func (h host) command(ctx context.Context, args ...string) *exec.Cmd {
	var all []string
	if !h.far { // in a partial clone, any object that is missing would be fetched
		all = append(all, "-c", "protocol.allow=never")
	}
	for _, c := range append(slices.Clone(hardened), h.config...) {
		all = append(all, "-c", c)
	}
	all = append(append(all, h.where...), args...)
	c := exec.CommandContext(ctx, find(), all...)
	if find() == "" {
		c.Err = exec.ErrNotFound
	}
	c.Dir, c.Env = h.dir, environment()
	if h.locks {
		c.Env = slices.DeleteFunc(c.Env, func(v string) bool { return v == "GIT_OPTIONAL_LOCKS=0" })
	}
	if h.index != "" {
		c.Env = append(c.Env, "GIT_INDEX_FILE="+h.index)
	}
	c.Env = append(c.Env, h.env...)
	if h.objects != "" {
		c.Env = append(c.Env, "GIT_OBJECT_DIRECTORY="+h.objects)
	}
	// Git starts others; all of them end when time is up, and none of them hears a
	// Ctrl-C that is meant for a program inside. They are asked to end, not killed: so
	// they take their locks with them.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 5 * time.Second
	return c
}

// run runs git and returns what it printed.
func (h host) run(ctx context.Context, stdin string, args ...string) (string, error) {
	if stdin == "" {
		return h.read(ctx, nil, args...)
	}
	return h.read(ctx, strings.NewReader(stdin), args...)
}

// brief are the commands that take a lock of the user's repository for a moment.
var brief = []string{"update-ref", "symbolic-ref", "config"}

// read is run for what comes from elsewhere, and may be nil. A file is git's own standard input.
func (h host) read(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	run := runMortal
	if slices.Contains(brief, args[0]) {
		// It takes no time, and a git that ends in the moment in which the kernel makes
		// the file of a lock leaves it: what is begun is finished, whatever becomes of us.
		ctx, run = context.WithoutCancel(ctx), (*exec.Cmd).Run
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := h.command(ctx, args...)
	if h.mind {
		all, err := h.settings(ctx)
		if err != nil {
			return "", err
		}
		c.Env = append(c.Env, filtersOff(all)...)
	}
	c.Stdin = stdin
	out := &limited{left: maxOutput}
	errs := &limited{left: 64 << 10, drop: true}
	c.Stdout, c.Stderr = out, errs
	if err := run(c); err != nil {
		return "", &Error{Args: args, Err: err, Said: errs.String()}
	}
	return out.String(), nil
}

// contains reports whether a commit is another one or comes after it.
func (h host) contains(ctx context.Context, id, old string) (bool, error) {
	_, err := h.run(ctx, "", "merge-base", "--is-ancestor", old, id)
	if code(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// A few small trees that name each other many times are more files than any disk has. Git
// stores such a commit, but to read it into an index would take forever. So no branch outside
// moves to a commit with more entries than this, or with longer names together. Tests set
// other bounds.
var (
	maxPaths     = 2_000_000
	maxPathBytes = 512 << 20
)

// heavy reports whether a commit has too many files for git, or files that git cannot list.
func (h host) heavy(ctx context.Context, commit string) (bool, error) {
	c := h.command(ctx, "ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", commit)
	c.Stdout = &tally{}
	err := runMortal(c)
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return err != nil, nil
}

// tally counts names that end with a NUL, and fails when there are too many.
type tally struct{ names, bytes int }

var errHeavy = errors.New("too many files")

func (t *tally) Write(p []byte) (int, error) {
	t.names += bytes.Count(p, []byte{0})
	t.bytes += len(p)
	if t.names > maxPaths || t.bytes > maxPathBytes {
		return 0, errHeavy
	}
	return len(p), nil
}

// text is run for an answer of one line.
func (h host) text(ctx context.Context, args ...string) (string, error) {
	out, err := h.run(ctx, "", args...)
	return strings.TrimSuffix(out, "\n"), err
}

// An Error is git's refusal.
type Error struct {
	Args []string
	Err  error
	Said string
}

func (e *Error) Error() string {
	// Of all that it says, what went wrong.
	var wrong []string
	for line := range strings.Lines(e.Said) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "fatal: "); ok {
			wrong = append(wrong, text)
		} else if text, ok := strings.CutPrefix(line, "error: "); ok {
			wrong = append(wrong, text)
		}
	}
	said := strings.TrimSuffix(strings.Join(wrong[:min(len(wrong), 3)], "; "), ".")
	if said == "" {
		said = strings.TrimSpace(e.Said)
	}
	if said == "" {
		said = e.Err.Error()
	}
	return fmt.Sprintf("git %s: %s", e.Args[0], said)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint is about a lock of all the repository's refs, or of its config, which a git that was
// killed has left. It may as well be that of a git that is at work, and only the user can know:
// it is his.
func (e *Error) Hint() string {
	switch {
	case e.isConfigLocked():
		return "if no git is at work in that repository, one that was killed has left config.lock beside it: remove that"
	case strings.Contains(e.Said, "/packed-refs.lock': File exists"):
		return "if no git is at work in that repository, one that was killed has left this file: remove it"
	}
	return ""
}

// code is the exit code of a git that failed.
func code(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// missing explains why there is no git.
func missing(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return ui.Error("git is not installed", "install it, or use --workspace direct")
	}
	return err
}

// isConfigLocked reports whether another git writes a config, or did when it was killed.
func (e *Error) isConfigLocked() bool {
	return strings.Contains(e.Said, "could not lock config file ") && strings.Contains(e.Said, ": File exists")
}

// limited is a buffer that takes so much and no more.
type limited struct {
	bytes.Buffer
	left int
	drop bool // what is too much, instead of failing
}

func (l *limited) Write(p []byte) (int, error) {
	n := len(p)
	if n > l.left {
		if !l.drop {
			return 0, io.ErrShortBuffer
		}
		p = p[:l.left]
	}
	l.left -= len(p)
	l.Buffer.Write(p)
	return n, nil
}
