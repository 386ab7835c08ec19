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

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
)

// What the user does in the worktree outside has hooks too: the repository's, which may
// lie among the files that the sandbox writes. On the host none of them is run. Git finds
// hooks of ours there, which have the repository's run inside; see [Bridge.Hook].

// HookCommand is the hidden command that these hooks start.
const HookCommand = "git-hook"

// hookNames are the hooks that are passed on. Not those of which git runs one for every
// ref and every file that it looks at, nor those of servers.
var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch",
	"pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "post-rewrite", "pre-auto-gc",
}

// shim is what all of them are. It is given coffer's place, and the bridge's.
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

// writeHooks makes the hooks of the worktree, which are no files of the sandbox's.
func (b *Bridge) writeHooks() error {
	if err := os.MkdirAll(b.hooks(), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.hooks(), "post-index-change"), []byte(guard), 0o700); err != nil {
		return err
	}
	for _, name := range hookNames {
		if err := os.Symlink(shimName, filepath.Join(b.hooks(), name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return putExecutable(filepath.Join(b.hooks(), shimName), b.shimText(program))
}

// RenewHooks makes the hooks lead to this coffer, should they lead to another, or be none.
func (b *Bridge) RenewHooks() error {
	program, err := os.Executable()
	if err != nil || b.Laid {
		return err
	}
	if old, err := os.ReadFile(filepath.Join(b.hooks(), shimName)); err == nil && string(old) == b.shimText(program) {
		return nil
	}
	return b.writeHooks()
}

func (b *Bridge) shimText(program string) string {
	return fmt.Sprintf(shim, shellQuote(program), shellQuote(b.dir))
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// shellWord is a word of a command that a person may copy: quoted, if it is not plain. The
// name of a branch is a sandbox's to choose, and may be a command in itself.
func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,@%=:") == "" {
		return s
	}
	return shellQuote(s)
}

// putExecutable writes a program by rename: somebody may be running the old one.
func putExecutable(path, text string) error {
	return safepath.File{Path: path, Mode: 0o700, Alone: true}.Write([]byte(text))
}

// hooksPath is what git inside is told of core.hooksPath: a place in the tree, or one of the
// system's, which can be read inside too. Others are the user's own: what lies there stays
// unread inside, and is not run on the host among files that a sandbox wrote.
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

// OwnHook is a hook of the user's own, for all repositories, that git would run elsewhere and
// that is not run in the worktree; "" if there is none.
func (b *Bridge) OwnHook(ctx context.Context, name string) string {
	r, err := b.settings(ctx)
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

// maxPrivateConfig bounds what is read of the private directory's config.
const maxPrivateConfig = 256 << 10

// mayHave says whether the sandbox may have a hook: to ask it would mean to start it.
// Whatever is not understood counts as a yes; then git inside knows.
func (b *Bridge) mayHave(hook string) bool {
	private, err := os.OpenRoot(b.private())
	if err != nil {
		return false
	}
	defer private.Close()
	config := smallText(private, "config", maxPrivateConfig)
	if config == "" {
		return true
	}
	dirs, included := []string{}, false
	rootfs.ReadGitConfig(strings.NewReader(config), func(key, value string) {
		included = included || strings.HasPrefix(key, "include") || strings.HasPrefix(key, "extensions.worktreeconfig")
		if key == "core.hookspath" {
			dirs = append(dirs, value)
		}
	})
	if included {
		return true
	}
	if len(dirs) == 0 {
		_, err := private.Lstat("hooks/" + hook)
		return !errors.Is(err, fs.ErrNotExist)
	}
	tree, err := os.OpenRoot(b.Tree)
	if err != nil {
		return true
	}
	defer tree.Close()
	return slices.ContainsFunc(dirs, func(dir string) bool {
		if dir == os.DevNull {
			return false
		}
		if rest, ok := strings.CutPrefix(dir, b.At()+"/"); ok {
			dir = rest
		}
		if !filepath.IsLocal(dir) {
			return true
		}
		_, err := tree.Lstat(filepath.Join(dir, hook))
		return !errors.Is(err, fs.ErrNotExist)
	})
}
