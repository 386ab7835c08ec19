package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// Git runs hooks for what the user does in the worktree outside, and the repository's may lie
// among the files that the sandbox writes. None of them runs on the host: git finds hooks of
// ours there, which run the repository's inside; see [Bridge.Hook].

// HookCommand is the hidden command that these hooks start.
const HookCommand = "git-hook"

// hookNames are the hooks that are passed on: not those that git runs for every ref and every
// file that it looks at, nor those of servers.
var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch",
	"pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "post-rewrite", "pre-auto-gc",
}

// shim is what all of them are: it has the paths of coffer and of the bridge.
const shim = `#!/bin/sh
# Written by coffer: the hooks of this worktree run in its sandbox.
coffer=%s
if [ ! -x "$coffer" ]; then
	echo "coffer: the hook ${0##*/} was not run in the sandbox, because $coffer is gone" >&2
	echo "hint: use the sandbox once to have it found again, or skip the hook with --no-verify" >&2
	case ${0##*/} in post-*|prepare-*) exit 0;; esac
	exit 1
fi
exec "$coffer" ` + HookCommand + ` %s "${0##*/}" "$@"
`

// guard marks submodules that the user's own commands put into the index.
const guard = `#!/bin/sh
# Written by coffer. Git runs commands in submodules, and what a sandbox put there is
# not to be run: what is marked so, git does not look into.
git ls-files -z -s -t | grep -qz '^H 160000 ' || exit 0
git ls-files -z -s -t | grep -z '^H 160000 ' | cut -z -f 2- | git update-index -z --skip-worktree --stdin
`

// shimName is the file that the hooks are links to: git takes none of that name for a hook.
const shimName = "coffer"

// hookDir are the hooks of a worktree outside, which are no files of the sandbox's.
type hookDir struct {
	folder string // the bridge's
}

func (b *Bridge) hooks() hookDir { return hookDir{b.dir} }

func (d hookDir) dir() string { return filepath.Join(d.folder, "hooks") }

// write makes the hooks.
func (d hookDir) write() error {
	if err := os.MkdirAll(d.dir(), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.dir(), "post-index-change"), []byte(guard), 0o700); err != nil {
		return err
	}
	for _, name := range hookNames {
		if err := os.Symlink(shimName, filepath.Join(d.dir(), name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return d.renew()
}

// renew makes the hooks start this coffer. It writes by rename, as somebody may be running
// the old one.
func (d hookDir) renew() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	path, text := filepath.Join(d.dir(), shimName), fmt.Sprintf(shim, ui.Word(program), ui.Word(d.folder))
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	return safepath.File{Path: path, Mode: 0o700, Alone: true}.Write([]byte(text))
}

// hooksPath is core.hooksPath for git inside: a place in the tree, or one of the system's,
// which can be read inside too. Others are the user's own: they are not read inside, and not
// run on the host among files that a sandbox wrote.
func (r *Repository) hooksPath() string {
	value := r.config["core.hookspath"]
	if r.Top != "" {
		value = strings.TrimPrefix(value, r.Top+"/")
	}
	ofSystem := func(dir string) bool { return strings.HasPrefix(value, dir) }
	switch {
	case value == "" || value[0] == '~' || value[0] == '%': // by which git means a home, or its own place
		return ""
	case filepath.IsLocal(value), value == os.DevNull:
		return value
	case filepath.Clean(value) == value && slices.ContainsFunc([]string{"/usr/", "/etc/", "/opt/"}, ofSystem):
		return value
	}
	return ""
}

// OwnHook is a hook of the user's own that git would run elsewhere, and does not run in the
// worktree; "" if there is none.
func (b *Bridge) OwnHook(ctx context.Context, name string) string {
	r, err := b.Repository(ctx)
	if err != nil {
		return ""
	}
	r.Top = b.place()
	dir := r.config["core.hookspath"]
	if dir == "" || r.hooksPath() != "" {
		return ""
	}
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		home, _ := os.UserHomeDir()
		dir = filepath.Join(home, rest)
	}
	hook := filepath.Join(dir, name)
	if info, err := os.Stat(hook); err != nil || !filepath.IsAbs(hook) || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return ""
	}
	return hook
}
