package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A repository can have several remotes: the project, which the user fetches from and opens
// pull requests in, and a fork of it, which the user may push to. Either can be called
// origin. Which is which is decided as git and gh do, by the same settings.

// A Remote is one of the user's, as far as a sandbox may use it.
type Remote struct {
	Name   string
	bridge *Bridge
}

// Remote is where the user's git would push the sandbox's branch to.
func (b *Bridge) Remote(ctx context.Context) (*Remote, error) {
	r, err := b.Repository(ctx)
	if err != nil {
		return nil, err
	}
	branch := "branch." + b.Branch + "."
	for _, key := range []string{branch + "pushremote", "remote.pushdefault"} {
		// A name of no remote may be there to prevent pushes, so no other one is taken.
		if name := r.config[key]; name != "" && !slices.Contains(r.remotes(), name) {
			return nil, ui.Error(fmt.Sprintf("%s in the git config of the repository is %q, which is no remote", key, name),
				"name one, outside the sandbox, with "+ui.Command("git config", key, "NAME"))
		} else if name != "" {
			return r.remote(b, name)
		}
	}
	return r.remote(b, r.config[branch+"remote"], "origin")
}

// Project is the remote that the user's work is for: the one that gh was told so of, else the
// one that is called upstream. gh can also be told the project's name, OWNER/REPO, where no
// remote leads there; the remote is then one on the same server.
func (b *Bridge) Project(ctx context.Context) (remote *Remote, name string, err error) {
	r, err := b.Repository(ctx)
	if err != nil {
		return nil, "", err
	}
	chosen := ""
	for _, remote := range r.remotes() {
		switch said := r.config["remote."+remote+".gh-resolved"]; {
		case said == "base":
			chosen, name = remote, ""
		case said != "" && chosen == "":
			chosen, name = remote, said
		}
	}
	remote, err = r.remote(b, chosen, "upstream", "origin", r.config["remote.pushdefault"])
	return remote, name, err
}

// remotes lists the names of the user's remotes in this repository.
func (r *Repository) remotes() (all []string) {
	for key := range r.config {
		if name, ok := strings.CutPrefix(key, "remote."); ok && strings.HasSuffix(name, ".url") {
			all = append(all, strings.TrimSuffix(name, ".url"))
		}
	}
	slices.Sort(all)
	return all
}

// remote is the first of these remotes that there is, or the only one.
func (r *Repository) remote(b *Bridge, names ...string) (*Remote, error) {
	all := r.remotes()
	chosen := ""
	switch i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(all, name) }); {
	case i >= 0:
		chosen = names[i]
	case len(all) == 1:
		chosen = all[0]
	case len(all) == 0:
		return nil, ui.Error("the repository has no remote", "add one, outside the sandbox, with 'git remote add origin URL'")
	default:
		return nil, ui.Error("the repository has several remotes, and none of them is called origin",
			"choose one, outside the sandbox, with 'git config remote.pushDefault NAME'")
	}
	if !ValidRef("refs/remotes/" + chosen + "/x") {
		return nil, fmt.Errorf("the remote %q has a name that is not supported", chosen)
	}
	return &Remote{chosen, b}, nil
}

// URL is where the remote is; for pushes, it may be elsewhere.
func (r *Remote) URL(ctx context.Context, push bool) (string, error) {
	args := []string{"remote", "get-url"}
	if push {
		args = append(args, "--push")
	}
	return r.bridge.refs().text(ctx, append(args, "--", r.Name)...)
}

// branches is what the host knows of the remote's branches, and which of them the sandbox
// pushed.
func (r *Remote) branches(ctx context.Context) (known, pushed map[string]string, err error) {
	tracked := "refs/remotes/" + r.Name + "/"
	refs, err := r.bridge.refs().list(ctx, tracked, r.bridge.pushed())
	known, pushed = map[string]string{}, map[string]string{}
	for _, ref := range refs {
		if branch, ok := strings.CutPrefix(ref.Name, tracked); ok && branch != "HEAD" {
			known[branch] = ref.ID
		} else if branch, ok := strings.CutPrefix(ref.Name, r.bridge.pushed()); ok {
			pushed[branch] = ref.ID
		}
	}
	return known, pushed, err
}

// Heads are the remote's branches that are this sandbox's: those that it pushed, and those
// that the user gave it by name. Its main one is the first, if it is among them.
func (r *Remote) Heads(ctx context.Context, patterns []string) (heads []string, err error) {
	known, pushed, err := r.branches(ctx)
	for branch := range known {
		if _, ok := pushed[branch]; ok || r.bridge.claim(branch, patterns) == claimAny {
			heads = append(heads, branch)
		}
	}
	slices.Sort(heads)
	if i := slices.Index(heads, r.bridge.Branch); i > 0 {
		heads = append([]string{r.bridge.Branch}, slices.Delete(heads, i, i+1)...)
	}
	return heads, err
}

// remotePatience is how long a remote may take.
const remotePatience = 5 * time.Minute

// run runs git on the host for what reaches the remote.
func (r *Remote) run(ctx context.Context, reach, config []string, args ...string) (out, errs string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, remotePatience, errors.New("it took too long"))
	defer cancel()
	h := r.bridge.refs()
	h.far, h.config = true, config
	if h.dir, err = r.dir(ctx, reach); err != nil {
		return "", "", err
	}
	c := h.command(ctx, args...)
	c.SysProcAttr.Setpgid, c.SysProcAttr.Setsid = false, true // away from the terminal: ssh would ask there
	stdout, stderr := &limited{left: maxWords, drop: true}, &limited{left: maxWords, drop: true}
	c.Stdout, c.Stderr = stdout, stderr
	err = c.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return "", "", cause
	}
	if errs = stderr.String(); err != nil {
		err = &Error{Args: args, Err: err, Said: Redact(errs)}
	}
	return stdout.String(), errs, err
}

// dir is where git is to run to reach the remote. One that is a directory of this machine has
// hooks, which run here: so it must not be where a sandbox can write.
func (r *Remote) dir(ctx context.Context, reach []string) (dir string, err error) {
	dir = "/"
	for _, way := range []string{"--push", "--all"} {
		urls, err := r.bridge.refs().text(ctx, "remote", "get-url", "--all", way, "--", r.Name)
		if err != nil {
			return "", err
		}
		for url := range strings.SplitSeq(urls, "\n") {
			path, local := localPath(url)
			if !local {
				continue
			}
			if !filepath.IsAbs(path) { // to where the user types git
				dir = r.bridge.place()
				path = filepath.Join(dir, path)
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return "", fmt.Errorf("the remote %s: %w", r.Name, err)
			}
			for _, area := range r.bridge.Writable(reach) {
				if area != "" && (safepath.Covers(area, path) || safepath.Covers(area, real)) {
					return "", fmt.Errorf("the remote %s is a directory in %s, where a sandbox could have put programs for git to run", r.Name, area)
				}
			}
		}
	}
	return dir, nil
}

// Writable is all of the host's that sandboxes can write, besides some places: all worktrees
// and layers are in one directory.
func (b *Bridge) Writable(reach []string) []string {
	folder := b.dir
	if b.Include != "" {
		folder = filepath.Dir(filepath.Dir(folder)) // the sandbox's
	}
	return append(slices.Clone(reach), b.Tree, filepath.Dir(folder))
}

// localPath is the directory of this machine that a URL means, by git's rules: what has a
// colon before any slash is another machine's.
func localPath(url string) (path string, ok bool) {
	if path, ok := strings.CutPrefix(url, "file://"); ok {
		return path, true
	}
	colon, slash := strings.IndexByte(url, ':'), strings.IndexByte(url, '/')
	return url, colon < 0 || slash >= 0 && slash < colon
}

// The user's remote is the remote "upstream" inside: git fetch upstream has the host fetch,
// with the user's credentials, and is then told where the branches of the remote are. Their
// objects need not be sent, for the host's can be seen inside.

// UpstreamCommand is the command that git inside starts as it would start git-upload-pack,
// with the path of the URL: coffer asks the host for the refs of the user's remote.
// (http://coffer.internal/git/upstream is the same, without a word while it waits.)
const UpstreamCommand = "git-upstream"

// Fetch has the host fetch from the remote, as the user would, except that nothing but the
// refs that follow the remote, and new tags, can move. reach are directories that the sandbox
// can write.
func (r *Remote) Fetch(ctx context.Context, reach []string) error {
	specs, err := r.following(ctx)
	if err != nil {
		return err
	}
	_, _, err = r.run(ctx, reach, nil, append([]string{"fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--no-write-commit-graph", "--refmap=", "--", r.Name}, specs...)...)
	if err != nil {
		return fmt.Errorf("fetch from %s: %w", r.Name, err)
	}
	return nil
}

// following is what the user's config has git fetch from the remote, without what would move
// other refs than those that follow it: a mirror's are the user's own branches.
func (r *Remote) following(ctx context.Context) (specs []string, err error) {
	out, err := r.bridge.refs().run(ctx, "", "config", "-z", "--get-all", "remote."+r.Name+".fetch")
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
		return nil, ui.Error(fmt.Sprintf("your repository outside does not keep the branches of %s apart from its own", r.Name),
			"fetch there yourself, or have them kept with "+ui.Command("git config --add", "remote."+r.Name+".fetch", "+refs/heads/*:refs/remotes/"+r.Name+"/*"))
	}
	return specs, nil
}

// Refs are the remote's branches as the host last saw them, and the host's tags. Those of
// other sandboxes are not shown. head is the branch that the remote's HEAD names.
func (r *Remote) Refs(ctx context.Context) (refs []Ref, head string, err error) {
	tracked := "refs/remotes/" + r.Name + "/"
	all, err := r.bridge.refs().list(ctx, tracked, "refs/tags/")
	for _, ref := range all {
		branch, ok := strings.CutPrefix(ref.Name, tracked)
		switch {
		case ok && branch == "HEAD":
			head = "refs/heads/" + strings.TrimPrefix(ref.Target, tracked)
			continue
		case ok && strings.HasPrefix(branch, "coffer/") && r.bridge.claim(branch, nil) == claimNone:
			continue
		case ok:
			ref.Name = "refs/heads/" + branch
		}
		refs = append(refs, ref)
	}
	return refs, head, err
}
