package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A push inside says which branches of the remote are to be where. The host pushes, with
// the user's credentials, and only what is judged here to be the sandbox's to push:
//
//   - The commit must be on one of the branches that were brought over.
//   - The branch is the sandbox's own, by its name, or the user named it in git.push_patterns.
//   - What is there already was made by this sandbox, or the user named the branch
//     without a wildcard. Only the former may be rewritten or deleted.
//
// What git on the host is told to expect of the remote is what was judged: if it is no
// longer so, the remote refuses.

// patiencePush is how long the remote may take.
const patiencePush = 5 * time.Minute

// maxShown bounds the branches of the remote that a client is told of.
const maxShown = 1000

// A Move is one branch of the remote that is to change, and was found to be the sandbox's.
type Move struct {
	Remote, Branch string
	Old, New       string // "" for none
	Rewrite        bool   // commits of the sandbox's own are given up
	own            bool   // the sandbox made the branch, or is about to
}

// String says what would happen, for the user to decide about.
func (m Move) String() string {
	switch {
	case m.New == "":
		return fmt.Sprintf("delete the branch %s of %s", m.Branch, m.Remote)
	case m.Old == "":
		return fmt.Sprintf("push %.12s to %s as the new branch %s", m.New, m.Remote, m.Branch)
	case m.Rewrite:
		return fmt.Sprintf("push %.12s to %s, in place of what is on its branch %s", m.New, m.Remote, m.Branch)
	}
	return fmt.Sprintf("push %.12s to the branch %s of %s", m.New, m.Branch, m.Remote)
}

// pushURL is where git inside pushes to.
func (b *Bridge) pushURL() string { return "http://" + link.AboutName + b.PushPath() }

// PushPath is the path of that.
func (b *Bridge) PushPath() string {
	if b.Include != "" {
		return "/include/" + b.Include + "/git"
	}
	return "/git"
}

func (b *Bridge) pushed() string { return b.own() + "pushed/" }

// claim says by what right a sandbox would push to a branch.
type claim int

const (
	claimNone claim = iota
	claimNew        // its own by name, or by a wildcard: what it makes there itself
	claimAny        // the user named this very branch
)

func (b *Bridge) claim(branch string, patterns []string) claim {
	if branch == b.Branch || strings.HasPrefix(branch, "coffer/"+b.Name+"@") {
		return claimNew
	}
	if branch == "coffer" || strings.HasPrefix(branch, "coffer/") {
		return claimNone // those of other sandboxes, whatever a wildcard says
	}
	if slices.Contains(patterns, branch) {
		return claimAny
	}
	for _, p := range patterns {
		if wild(p, branch) {
			return claimNew
		}
	}
	return claimNone
}

// wild matches a pattern, in which a * stands for anything.
func wild(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}

// upstream is what the host knows of the remote's branches, and which of them the sandbox
// pushed.
func (b *Bridge) upstream(ctx context.Context, remote string) (known, pushed map[string]string, err error) {
	tracked := "refs/remotes/" + remote + "/"
	out, err := b.refs().run(ctx, "", "for-each-ref", "--format=%(objectname) %(refname)", tracked, b.pushed())
	if err != nil {
		return nil, nil, err
	}
	known, pushed = map[string]string{}, map[string]string{}
	for line := range strings.Lines(out) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if branch, ok := strings.CutPrefix(name, tracked); ok && branch != "HEAD" {
			known[branch] = id
		} else if branch, ok := strings.CutPrefix(name, b.pushed()); ok {
			pushed[branch] = id
		}
	}
	return known, pushed, nil
}

// Pushable lists the branches of the remote that the sandbox could push to and that are
// there, and the commits of the sandbox that the host has.
func (b *Bridge) Pushable(ctx context.Context, remote string, patterns []string) (refs []Ref, have []string, err error) {
	known, _, err := b.upstream(ctx, remote)
	if err != nil {
		return nil, nil, err
	}
	for branch, id := range known {
		if b.claim(branch, patterns) != claimNone && len(refs) < maxShown {
			refs = append(refs, Ref{Name: "refs/heads/" + branch, ID: id})
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	out, err := b.refs().run(ctx, "", "for-each-ref", "--format=%(objectname)", fmt.Sprintf("--count=%d", maxShown), b.incoming())
	have = strings.Fields(out)
	slices.Sort(have)
	return refs, slices.Compact(have), err
}

// Judge decides whether a command is the sandbox's to give. Its commits were brought over.
func (b *Bridge) Judge(ctx context.Context, remote string, patterns []string, c PushCommand) (m Move, err error) {
	branch := c.Branch()
	if branch == "" {
		return m, ui.Error("only branches can be pushed from a sandbox", "the user can push it, outside")
	}
	right := b.claim(branch, patterns)
	if right == claimNone {
		return m, ui.Error(fmt.Sprintf("%s is not a branch of this sandbox", branch), fmt.Sprintf(
			"push to its own: git push origin HEAD:%s; the user can allow other names with git.push_patterns in coffer.toml", b.Branch))
	}
	known, pushed, err := b.upstream(ctx, remote)
	if err != nil {
		return m, err
	}
	m = Move{Remote: remote, Branch: branch, Old: known[branch], New: c.New}
	if c.Old != m.Old {
		return m, ui.Error(fmt.Sprintf("%s has moved meanwhile", branch), "push again")
	}
	ours := m.Old != "" && pushed[branch] == m.Old
	m.own = m.Old == "" || ours
	if !m.own && right != claimAny {
		return m, ui.Error(fmt.Sprintf("%s has a branch %s that this sandbox did not push, or that somebody else has moved since", remote, branch),
			fmt.Sprintf("push to another name; or the user names it in git.push_patterns, without a *: push_patterns = [%q]", branch))
	}
	if m.New == "" {
		if !ours {
			return m, ui.Error(fmt.Sprintf("this sandbox did not push %s, and cannot delete it", branch), "the user can, outside")
		}
		return m, nil
	}
	out, err := b.refs().run(ctx, "", "for-each-ref", "--count=1", "--format=x", "--contains="+m.New, b.incoming())
	if (err != nil || out == "") && m.New == b.Base {
		return m, ui.Error("there is nothing to push: nothing was committed in this sandbox yet", "commit something first")
	}
	if err != nil || out == "" {
		return m, ui.Error(fmt.Sprintf("%.12s is on no branch of this sandbox that has come out", m.New), "commit it to a branch, and push again")
	}
	if m.Old != "" {
		ahead, err := (&session{Bridge: b}).contains(ctx, m.New, m.Old)
		if err != nil {
			return m, err
		}
		m.Rewrite = !ahead
	}
	if m.Rewrite && !ours {
		return m, ui.Error(fmt.Sprintf("%s has commits on %s that %.12s does not have, and that are not this sandbox's", remote, branch, m.New), "the user can fetch them outside; then merge or rebase, and push again")
	}
	return m, nil
}

// Push has the host push. reach are directories that the sandbox can write. said is what the remote's server said, and is a stranger's.
func (b *Bridge) Push(ctx context.Context, m Move, reach []string) (said []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patiencePush, errors.New("it took too long"))
	defer cancel()
	ref := "refs/heads/" + m.Branch
	h := b.refs()
	h.far = true
	if h.dir, err = b.remoteDir(ctx, m.Remote, reach); err != nil {
		return nil, err
	}
	h.config = []string{"push.followTags=false", "push.gpgSign=false", "push.recurseSubmodules=no", "push.default=nothing"}
	c := h.command(ctx, "push", "--porcelain", "--no-verify", "--no-progress", "--force-with-lease="+ref+":"+m.Old, "--", m.Remote, m.New+":"+ref)
	alone(c.SysProcAttr)
	out, errs := &limited{left: maxWords, drop: true}, &limited{left: maxWords, drop: true}
	c.Stdout, c.Stderr = out, errs
	err = c.Run()
	said = remoteWords(errs.String())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	} else if err != nil {
		err = pushError(out.String(), errs.String(), err)
	}
	if err != nil {
		return said, fmt.Errorf("push to %s: %w", m.Remote, err)
	}
	switch {
	case m.New == "":
		_, err = b.refs().run(ctx, "", "update-ref", "-d", b.pushed()+m.Branch)
	case m.own:
		_, err = b.refs().run(ctx, "", "update-ref", b.pushed()+m.Branch, m.New)
	}
	return said, err
}

// remoteDir is where git is to run to reach a remote. One that is a directory of this
// machine has hooks, which run here: so it must not be where a sandbox can write.
func (b *Bridge) remoteDir(ctx context.Context, remote string, reach []string) (dir string, err error) {
	dir = "/"
	for _, way := range []string{"--push", "--all"} {
		urls, err := b.refs().text(ctx, "remote", "get-url", "--all", way, "--", remote)
		if err != nil {
			return "", err
		}
		for url := range strings.SplitSeq(urls, "\n") {
			path, local := localPath(url)
			if !local {
				continue
			}
			if !filepath.IsAbs(path) { // to where the user types git
				dir = b.Common
				if filepath.Base(dir) == ".git" {
					dir = filepath.Dir(dir)
				}
				path = filepath.Join(dir, path)
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return "", fmt.Errorf("the remote %s: %w", remote, err)
			}
			for _, area := range b.Writable(reach) {
				if area != "" && (within(path, area) || within(real, area)) {
					return "", fmt.Errorf("the remote %s is a directory in %s, where a sandbox could have put programs for git to run", remote, area)
				}
			}
		}
	}
	return dir, nil
}

// Writable is all that sandboxes can write of the host's, besides these places: all
// worktrees and layers are in one directory.
func (b *Bridge) Writable(reach []string) []string {
	folder := b.dir
	if b.Include != "" {
		folder = filepath.Dir(filepath.Dir(folder)) // the sandbox's
	}
	return append(slices.Clone(reach), b.Tree, filepath.Dir(folder))
}

func within(path, dir string) bool { return path == dir || safepath.Within(path, dir) }

// localPath is the directory of this machine that a URL means, by git's rules: what has a
// colon before any slash is another machine's.
func localPath(url string) (path string, ok bool) {
	if path, ok := strings.CutPrefix(url, "file://"); ok {
		return path, true
	}
	colon, slash := strings.IndexByte(url, ':'), strings.IndexByte(url, '/')
	return url, colon < 0 || slash >= 0 && slash < colon
}

// alone takes a program away from the user's terminal: ssh would ask there.
func alone(a *syscall.SysProcAttr) { a.Setpgid, a.Setsid = false, true }

// RejectedError is the remote's own refusal, which may be told inside. What else goes wrong may
// name the user's credentials.
type RejectedError struct{ Reason string }

func (e *RejectedError) Error() string { return e.Reason }

func pushError(out, errs string, err error) error {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) == 3 && f[0] == "!" {
			return &RejectedError{f[2]}
		}
	}
	return &Error{Args: []string{"push"}, Err: err, Said: Redact(errs)}
}

var userinfo = lazily(`://[^/\s@]+@`)

// lazily compiles an expression when it is first used, which in most commands is never.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Redact takes credentials out of what git says.
func Redact(text string) string { return userinfo().ReplaceAllString(text, "://") }

// remoteWords are the lines that the server said.
func remoteWords(errs string) (said []string) {
	for line := range strings.Lines(errs) {
		if text, ok := strings.CutPrefix(line, "remote:"); ok && len(said) < 40 {
			if text = strings.TrimSpace(text); text != "" {
				said = append(said, text)
			}
		}
	}
	return said
}
