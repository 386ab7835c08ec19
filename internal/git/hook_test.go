package git

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestHookMessage: the only file that a hook can have copied in, and changed, is one in
// the worktree's own directory, whatever git is made to name.
func TestHookMessage(t *testing.T) {
	dir := t.TempDir()
	admin, tree := filepath.Join(dir, "admin"), filepath.Join(dir, "tree")
	for _, d := range []string{admin, tree} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret, message := filepath.Join(dir, "secret"), filepath.Join(admin, "COMMIT_EDITMSG")
	for path, text := range map[string]string{secret: "secret", message: "message\n", filepath.Join(tree, "file"): "file"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{admin, tree} {
		if err := os.Symlink(secret, filepath.Join(d, "link")); err != nil {
			t.Fatal(err)
		}
	}
	b := &Bridge{State: State{Admin: admin, Tree: tree}}
	for _, path := range []string{secret, "file", "link", "../secret", admin + "/../secret", filepath.Join(admin, "link"), filepath.Join(tree, "link"), admin} {
		if text, err := (&Hook{bridge: b}).readMessage(path); err == nil {
			t.Errorf("%s was read: %q", path, text)
		}
	}
	h := &Hook{bridge: b}
	if text, err := h.readMessage(message); err != nil || string(text) != "message\n" {
		t.Fatalf("the message: %q, %v", text, err)
	}
	answers := map[string]string{
		"": "message\n", "message\nnew\n": "new\n", "message\n": "", // which git takes for giving up
	}
	for answer, want := range answers {
		if err := os.WriteFile(message, []byte("message\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := h.Finish(t.Context(), []byte(answer), nil); err != nil {
			t.Errorf("%q: %v", answer, err)
		}
		if got, _ := os.ReadFile(message); string(got) != want {
			t.Errorf("%q made the message %q, want %q", answer, got, want)
		}
	}
	if err := os.WriteFile(message, []byte("message\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, answer := range [][]byte{[]byte("nonsense"), []byte("message\na\x00b"), append([]byte("message\n"), bytes.Repeat([]byte("x"), MaxHookAnswer)...)} {
		if err := h.Finish(t.Context(), answer, nil); err == nil {
			t.Errorf("%.20q was taken", answer)
		}
	}
	if got, _ := os.ReadFile(message); string(got) != "message\n" {
		t.Errorf("what was refused was written: %q", got)
	}
	if err := os.Remove(message); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, message); err != nil {
		t.Fatal(err)
	}
	if err := h.Finish(t.Context(), []byte("message\nnew\n"), nil); err == nil {
		t.Error("a link was written through")
	}
	if got, _ := os.ReadFile(secret); string(got) != "secret" {
		t.Errorf("the secret is now %q", got)
	}
}

// TestHookIndex: what a hook says about the index is the name of a commit, or nothing is
// fetched.
func TestHookIndex(t *testing.T) {
	h := &Hook{bridge: &Bridge{}, tree: strings.Repeat("a", 40)}
	for _, answer := range []string{"--upload-pack=evil", "refs/heads/main", "HEAD", strings.Repeat("A", 40), strings.Repeat("a", 40) + ":refs/heads/main"} {
		err := h.Finish(t.Context(), []byte(answer), func(string) error { t.Errorf("%q was fetched", answer); return nil })
		if err == nil {
			t.Errorf("%q was taken", answer)
		}
	}
}

// TestHookWords: places are those inside, and secrets stay outside.
func TestHookWords(t *testing.T) {
	b := &Bridge{State: State{Tree: "/tree"}}
	got := b.hookEnvironment([]string{
		"HOME=/home/ada", "GIT_DIR=/r/.git/worktrees/x", "GIT_WORK_TREE=/tree", "GIT_INDEX_FILE=/r/.git/worktrees/x/index",
		"GIT_AUTHOR_NAME=Ada", "GIT_EDITOR=:", "GIT_CONFIG_PARAMETERS='http.extraheader=secret'", "GIT_ASKPASS=/x", "GIT_SSH_COMMAND=ssh -i key", "GITHEAD_ab=topic",
	})
	want := []string{"GIT_DIR=/.coffer/git", "GIT_WORK_TREE=/tree", "GIT_AUTHOR_NAME=Ada", "GIT_EDITOR=:", "GITHEAD_ab=topic"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("variables: got %q, want %q", got, want)
	}
	if env := b.hookEnvironment([]string{"GIT_EDITOR=vi /secret"}); len(env) != 0 {
		t.Errorf("the editor of the host went in: %q", env)
	}
	args := plainURLs("pre-push", []string{"origin", "https://ada:token@example.com/r.git", "git@example.com:r.git"})
	if want := []string{"origin", "https://example.com/r.git", "git@example.com:r.git"}; !reflect.DeepEqual(args, want) {
		t.Errorf("addresses: got %q, want %q", args, want)
	}
}

// TestMayHave looks for hooks in the private directory; where its config may name another
// one, only git inside knows.
func TestMayHave(t *testing.T) {
	for _, c := range []struct {
		name, config, hook string // hook: a path in the sandbox's folder
		want               bool
	}{
		{"none", "[core]\n\tbare = false\n", "", false},
		{"in the git directory", "[core]\n\tbare = false\n", "git/hooks/pre-commit", true},
		{"in the tree", "[core]\n\thooksPath = .husky\n", "tree/.husky/pre-commit", true},
		{"somewhere else", "[core]\n\thooksPath = /elsewhere\n", "", true},
		{"above", "[core]\n\thooksPath = ../../x\n", "", true},
		{"an included file", "[include]\n\tpath = other\n", "", true},
		{"no config", "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"git/HEAD": "x", "tree/file": "x", c.hook: "x"}
			if c.config != "" {
				files["git/config"] = c.config
			}
			for path, text := range files {
				path = filepath.Join(dir, path)
				if path == dir {
					continue
				}
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			b := &Bridge{dir: dir, State: State{Tree: filepath.Join(dir, "tree")}}
			if got := b.private().mayHaveHook("pre-commit"); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A command that is offered to be copied does no more than it says, whatever a branch is
// called.
func TestOfferedCommands(t *testing.T) {
	for _, laid := range []bool{false, true} {
		s := &session{Bridge: &Bridge{State: State{ID: "abcdefgh", Name: "box", Branch: "coffer/box", Tree: "/tree", Laid: laid}}}
		s.diverged("side", "1111111111111111", "2222222222222222")
		s.diverged("x;echo${IFS}'ran'|sh", "1111111111111111", "2222222222222222")
		if strings.Contains(s.notes[0], "'refs/") {
			t.Errorf("quoted without need: %s", s.notes[0])
		}
		if want := `'refs/coffer/abcdefgh/heads/x;echo${IFS}'\''ran'\''|sh'`; !strings.Contains(s.notes[1], want) {
			t.Errorf("%s is not in: %s", want, s.notes[1])
		}
	}
}

// TestHooksPath: git inside is told of places in the tree and of the system's, and of no others.
func TestHooksPath(t *testing.T) {
	for value, want := range map[string]string{
		"":                      "",
		".husky":                ".husky",
		"/home/ada/engine/.hk":  ".hk",
		"/home/ada/hooks":       "",
		"~/hooks":               "",
		"~ada/hooks":            "",
		"%(prefix)/hooks":       "",
		"../hooks":              "",
		"/usr/share/hooks":      "/usr/share/hooks",
		"/etc/git/hooks":        "/etc/git/hooks",
		"/usr/../home/ada/.ssh": "",
		"/usrs/hooks":           "",
		"/dev/null":             "/dev/null",
	} {
		r := &Repository{Top: "/home/ada/engine", config: map[string]string{"core.hookspath": value}}
		if got := r.hooksPath(); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}
