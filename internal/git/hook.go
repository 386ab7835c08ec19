package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// A Hook is one of the repository's that git on the host wants to run, for something that the
// user does in the worktree. It runs inside, and sees what it would see outside:
//
//   - What is staged outside, in an index of its own: its objects are in the host's
//     repository, which can be seen inside. What the hook stages comes back by a fetch.
//   - The message that it may change, as a copy, which comes back as bytes.
//   - Its arguments, its standard input, and git's variables.
//
// All that it can do outside is to refuse, and to change what is committed to the sandbox's
// own branch.
type Hook struct {
	Name string
	// Argv, Env and Dir are the program to run inside, and Input what it reads, or nil.
	Argv, Env []string
	Dir       string
	Input     io.Reader

	bridge  *Bridge
	index   string // the host's index that it is about
	tree    string // and what is staged there
	message string // the file with the message, in the worktree's own directory
}

// MaxHookAnswer bounds what a hook's program may answer.
const MaxHookAnswer = 1 << 20

// withInput are the hooks that git tells something on their standard input.
var withInput = []string{"pre-push", "post-rewrite"}

// withMessage are the hooks whose first argument is a file that they may change.
var withMessage = []string{"applypatch-msg", "prepare-commit-msg", "commit-msg"}

// staging are the hooks after which git looks at the index once more.
var staging = []string{"pre-commit", "pre-merge-commit"}

// Needed says whether the user can skip a hook: then what he does must not go on without
// it.
func (h *Hook) Needed() bool { return Decides(h.Name) }

// Decides says whether a hook decides about what the user does.
func Decides(hook string) bool {
	return slices.Contains([]string{"applypatch-msg", "pre-applypatch", "pre-commit", "pre-merge-commit", "commit-msg", "pre-rebase", "pre-push"}, hook)
}

// hookScript runs the hook that git inside finds. The answer is what was a file's content,
// or the name of a commit of what is staged now; what the hook prints is on the errors, as
// git has it. An index with the host's files in it starts from the sandbox's own, which
// knows when they were last looked at.
const hookScript = `unset COFFER_HOOK
name=$0 tree=$1 file=$2 answer=$3
shift 3
hook=$(git rev-parse --git-path hooks)/$name
[ -f "$hook" ] && [ -x "$hook" ] || exit 0
case $hook in /*) ;; *) hook=./$hook;; esac
own=$(git rev-parse --absolute-git-dir) && new=$(mktemp -d "$own/coffer-hook.XXXXXX") || exit 1
trap 'rm -rf "$new"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
exec 3>&1 1>&2
if [ -n "$tree" ]; then
	cp "$own/index" "$new/index" 2>/dev/null
	GIT_INDEX_FILE=$new/index
	export GIT_INDEX_FILE
	git read-tree -m -i "$tree" 2>/dev/null || { rm -f "$new/index"; git read-tree "$tree"; } || exit 1
	git update-index -q --refresh >/dev/null 2>&1
fi
if [ -n "$file" ]; then
	cat >"$new/$file" || exit 1
	set -- "$new/$file" "$@"
	"$hook" "$@" 3>&- </dev/null
else
	"$hook" "$@" 3>&-
fi
status=$?
[ $status = 0 ] || exit $status
case $answer in
message) { echo message && cat "$new/$file"; } >&3 ;;
index)
	now=$(git write-tree) || exit 1
	[ "$now" = "$tree" ] && exit 0
	git -c user.name=coffer -c user.email=coffer@localhost -c commit.gpgSign=false commit-tree -m hook "$now" >&3 || exit 1 ;;
esac
`

// Hook prepares to run a hook, with the environment that git gave it. Without one inside,
// it is nil.
func (b *Bridge) Hook(ctx context.Context, name string, args, environ []string) (*Hook, error) {
	if b.Laid || !slices.Contains(hookNames, name) {
		return nil, fmt.Errorf("there is no hook %q", name)
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if !b.private().mayHaveHook(name) {
		return nil, nil
	}
	h := &Hook{Name: name, Dir: b.At(), bridge: b}
	answer, file := "", ""
	if slices.Contains(withMessage, name) && len(args) > 0 {
		text, err := h.readMessage(args[0])
		if err != nil {
			return nil, fmt.Errorf("read the message: %w", err)
		}
		h.Input, answer, file, args = bytes.NewReader(text), "message", filepath.Base(h.message), args[1:]
	} else if slices.Contains(withInput, name) {
		h.Input = os.Stdin
	}
	if err := h.staged(ctx, environ); err != nil {
		return nil, fmt.Errorf("find what is staged: %w", err)
	}
	if h.tree != "" && slices.Contains(staging, name) {
		answer = "index"
	}
	// Logs and checkpoints show a command line, so the script is not in it.
	h.Argv = append([]string{"sh", "-c", `eval "$COFFER_HOOK"`, name, h.tree, file, answer}, plainURLs(name, args)...)
	h.Env = append(b.hookEnvironment(environ), "COFFER_HOOK="+hookScript)
	return h, nil
}

// readMessage reads the file that a hook may change. It is git's own, in a directory that
// no sandbox can write.
func (h *Hook) readMessage(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(h.bridge.Tree, path)
	}
	rel, err := filepath.Rel(h.bridge.Admin, path)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("%s is not in %s", path, h.bridge.Admin)
	}
	h.message = rel
	return readIn(h.bridge.Admin, rel, MaxHookAnswer)
}

// staged finds what is staged in the index that git named. A copy of it is asked: git may
// have it locked.
func (h *Hook) staged(ctx context.Context, environ []string) error {
	at := slices.IndexFunc(environ, func(v string) bool { return strings.HasPrefix(v, "GIT_INDEX_FILE=") })
	if at < 0 {
		return nil
	}
	index := filepath.Clean(strings.TrimPrefix(environ[at], "GIT_INDEX_FILE="))
	if filepath.Dir(index) != h.bridge.Admin {
		index = filepath.Join(h.bridge.Admin, "index")
	}
	draft, err := os.CreateTemp(h.bridge.dir, "hook-index-")
	if err != nil {
		return err
	}
	draft.Close()
	defer os.Remove(draft.Name())
	defer os.Remove(draft.Name() + ".lock")
	if err := copyIn(h.bridge.Admin, filepath.Base(index), draft.Name()); err != nil {
		return err
	}
	git := h.bridge.tree()
	git.index = draft.Name()
	h.index = index
	h.tree, err = git.text(ctx, "write-tree")
	return err
}

// hookVariables are what git tells a hook, and hookPrefixes how others begin. What is not
// among them may name places of the host, or be a secret that was given on a command line.
var (
	hookVariables = []string{
		"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
		"GIT_REFLOG_ACTION", "GIT_PREFIX", "GIT_MERGE_AUTOEDIT", "GIT_LITERAL_PATHSPECS", "GIT_CHERRY_PICK_HELP",
	}
	hookPrefixes = []string{"GITHEAD_", "GIT_PUSH_OPTION_"}
)

// hookEnvironment are the variables for the hook, about the same things where they are
// inside. The index is the program's to make.
func (s *State) hookEnvironment(environ []string) (env []string) {
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "GIT_DIR":
			env = append(env, "GIT_DIR="+s.InsideDir())
		case name == "GIT_WORK_TREE":
			env = append(env, "GIT_WORK_TREE="+s.At())
		case name == "GIT_EDITOR" && value == ":", slices.Contains(hookVariables, name),
			slices.ContainsFunc(hookPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }):
			env = append(env, v)
		}
	}
	return env
}

// credentials are what a URL may have before its host.
var credentials = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://)[^/]*@`)

// plainURLs takes passwords out of what a hook is told about a remote.
func plainURLs(name string, args []string) []string {
	if name != "pre-push" {
		return args
	}
	args = slices.Clone(args)
	for i := range args {
		args[i] = credentials.ReplaceAllString(args[i], "$1")
	}
	return args
}

// Finish takes what a hook that succeeded has answered. fetch brings a commit over.
func (h *Hook) Finish(ctx context.Context, answer []byte, fetch func(commit string) error) error {
	switch {
	case len(answer) == 0:
		return nil // there was none, or it changed nothing
	case h.message != "":
		text, ok := bytes.CutPrefix(answer, []byte("message\n"))
		if !ok {
			return errors.New("the sandbox did not say what the message is now")
		}
		return h.writeMessage(text)
	case h.tree == "":
		return nil
	}
	commit := validCommit(string(answer))
	if commit == "" {
		return errors.New("the sandbox did not say what is staged now")
	}
	if err := fetch(commit); err != nil {
		return err
	}
	if err := moveIndex(ctx, h.bridge.tree(), h.index, h.tree, commit); err != nil {
		return fmt.Errorf("stage what the hook staged: %w", err)
	}
	return nil
}

// writeMessage makes the message what the hook made of it.
func (h *Hook) writeMessage(text []byte) error {
	if len(text) >= MaxHookAnswer || bytes.IndexByte(text, 0) >= 0 {
		return errors.New("what the hook made of the message is not one")
	}
	root, err := os.OpenRoot(h.bridge.Admin)
	if err != nil {
		return err
	}
	defer root.Close()
	if old, err := readIn(h.bridge.Admin, h.message, MaxHookAnswer); err == nil && bytes.Equal(old, text) {
		return nil
	}
	f, err := root.OpenFile(h.message, os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
