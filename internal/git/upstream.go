package git

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
)

// The user's remote is the remote "upstream" inside: git fetch upstream has the host fetch,
// with the user's credentials, and is then told where the branches of the remote are. Their
// objects need not be sent, for the host's can be seen inside.

// UpstreamCommand is the command by which coffer inside asks the host for the refs of the
// user's remote: git starts it as it would start git-upload-pack, with the path of the URL.
// (http://coffer.internal/git/upstream is the same, without a word while it waits.)
const UpstreamCommand = "git-upstream"

// upstreamConfig is the remote upstream in the config inside. It asks the user, so only
// who names it gets it.
func (b *Bridge) upstreamConfig() string {
	return fmt.Sprintf("[remote \"upstream\"]\n\turl = file://%s/upstream\n\tuploadpack = %s/bin/coffer %s\n\tpushurl = %s\n\tfetch = +refs/heads/*:refs/remotes/upstream/*\n\tskipFetchAll = true\n",
		b.PushPath(), rootfs.Own, UpstreamCommand, b.pushURL())
}

// RemoteURL is where a remote is; for pushes, it may be elsewhere.
func (b *Bridge) RemoteURL(ctx context.Context, remote string, push bool) (string, error) {
	args := []string{"remote", "get-url"}
	if push {
		args = append(args, "--push")
	}
	return b.refs().text(ctx, append(args, "--", remote)...)
}

// Heads are the branches of a remote that are this sandbox's: those that it pushed, and
// those that the user gave it by name. Its main one is the first, if it is among them.
func (b *Bridge) Heads(ctx context.Context, remote string, patterns []string) (heads []string, err error) {
	known, pushed, err := b.upstream(ctx, remote)
	for branch := range known {
		if _, ok := pushed[branch]; ok || b.claim(branch, patterns) == claimAny {
			heads = append(heads, branch)
		}
	}
	slices.SortFunc(heads, func(x, y string) int {
		if x == b.Branch || y == b.Branch {
			return map[bool]int{true: -1, false: 1}[x == b.Branch]
		}
		return strings.Compare(x, y)
	})
	return heads, err
}

// FetchUpstream has the host fetch from a remote, as the user would, except that nothing
// but the refs that follow the remote, and new tags, can move. reach are directories that
// the sandbox can write.
func (b *Bridge) FetchUpstream(ctx context.Context, remote string, reach []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patiencePush, errors.New("it took too long"))
	defer cancel()
	specs, err := b.following(ctx, remote)
	if err != nil {
		return err
	}
	h := b.refs()
	h.far = true
	if h.dir, err = b.remoteDir(ctx, remote, reach); err != nil {
		return err
	}
	c := h.command(ctx, append([]string{"fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--no-write-commit-graph", "--refmap=", "--", remote}, specs...)...)
	alone(c.SysProcAttr)
	errs := &limited{left: maxWords, drop: true}
	c.Stderr = errs
	err = c.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("fetch from %s: %w", remote, cause)
	}
	if err != nil {
		return fmt.Errorf("fetch from %s: %w", remote, &Error{Args: []string{"fetch"}, Err: err, Said: Redact(errs.String())})
	}
	return nil
}

// following is what the user's config has git fetch from a remote, without what would move
// other refs than those that follow the remote: a mirror's are the user's own branches.
func (b *Bridge) following(ctx context.Context, remote string) (specs []string, err error) {
	out, err := b.refs().run(ctx, "", "config", "-z", "--get-all", "remote."+remote+".fetch")
	if err != nil && code(err) != 1 {
		return nil, err
	}
	moves := false
	for spec := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		_, to, _ := strings.Cut(spec, ":")
		if strings.HasPrefix(to, "refs/remotes/") {
			moves = true
		} else if !strings.HasPrefix(spec, "^") {
			continue
		}
		specs = append(specs, spec)
	}
	if !moves {
		return nil, ui.Error(fmt.Sprintf("your repository outside does not keep the branches of %s apart from its own", remote),
			fmt.Sprintf("fetch there yourself, or have them kept with 'git config --add remote.%s.fetch \"+refs/heads/*:refs/remotes/%s/*\"'", remote, remote))
	}
	return specs, nil
}

// UpstreamRefs are the branches of a remote as the host last saw them, and the host's tags.
// Those of other sandboxes are not shown. head is the branch that the remote's HEAD names.
func (b *Bridge) UpstreamRefs(ctx context.Context, remote string) (refs []Ref, head string, err error) {
	tracked := "refs/remotes/" + remote + "/"
	out, err := b.refs().run(ctx, "", "for-each-ref", "--format=%(objectname) %(refname) %(*objectname) %(symref)", tracked, "refs/tags/")
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(f) != 4 {
			continue
		}
		name := f[1]
		if branch, ok := strings.CutPrefix(name, tracked); ok {
			if branch == "HEAD" {
				head = "refs/heads/" + strings.TrimPrefix(f[3], tracked)
				continue
			}
			if strings.HasPrefix(branch, "coffer/") && b.claim(branch, nil) == claimNone {
				continue
			}
			name = "refs/heads/" + branch
		}
		refs = append(refs, Ref{Name: name, ID: f[0], Peeled: f[2]})
	}
	return refs, head, nil
}
