package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// consentOrder is how far what the host does for a sandbox may go without the user.
var consentOrder = []string{"deny", "ask", "allow"}

func (k *checker) git() {
	for i, file := range k.Git.Copy {
		if file == "" || filepath.IsAbs(file) || filepath.Clean(file) != file || file == "." || strings.HasPrefix(file, "../") || strings.ContainsAny(file, "\x00*?[") ||
			slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool { return strings.EqualFold(part, ".git") }) {
			k.at(path("git", "copy", i), errors.New("want the path of a file in the repository"))
		}
	}
	for i, p := range k.Git.PushPatterns {
		if p == "" || strings.HasPrefix(p, "-") || strings.HasPrefix(p, "refs/") || strings.ContainsAny(p, " \x00~^:?[\\") || strings.Contains(p, "..") {
			k.at(path("git", "push_patterns", i), fmt.Errorf("%s cannot match the name of a branch", quote(p)))
		}
	}
}

// git: ignored files are where secrets are, and a push is heard far away.
func (w *widening) git() {
	for _, what := range []struct{ name, is, was string }{
		{"pushes are", w.is.Git.Push, w.was.Git.Push},
		{"fetches from your remote are", w.is.Git.Upstream, w.was.Git.Upstream},
		{"what gh changes with your login is", w.is.Git.GH, w.was.Git.GH},
		{"what gh reads with your login is", w.is.Git.GHRead, w.was.Git.GHRead},
	} {
		if rank(what.is, consentOrder...) > rank(what.was, consentOrder...) {
			w.add("git: %s %s, where you have %s", what.name, what.is, what.was)
		}
	}
	if w.is.Git.Nested == sandbox.NestedOpen && w.was.Git.Nested != sandbox.NestedOpen {
		w.add("git: hooks and config of repositories below the workspace can be changed")
	}
	if w.is.Git.Take && !w.was.Git.Take {
		w.add("git: your branch moves to what is committed inside")
	}
	for _, p := range w.is.Git.PushPatterns {
		if !slices.Contains(w.was.Git.PushPatterns, p) {
			w.add("git: branches upstream called %s may be pushed to", p)
		}
	}
	for _, file := range w.is.Git.Copy {
		if !slices.Contains(w.was.Git.Copy, file) {
			w.add("git: your file %s, which git ignores, is copied into new worktrees", file)
		}
	}
}

// Git is what a sandbox may have the host do with its repository.
func (l *Loaded) Git() sandbox.Git {
	g := l.Config.Git
	for _, answer := range []*string{&g.Push, &g.Upstream, &g.GH, &g.GHRead} {
		if *answer == "ask" {
			*answer = "" // as every record has it that says nothing
		}
	}
	if g.Nested == "lock" {
		g.Nested = ""
	}
	return sandbox.Git{Push: g.Push, Patterns: g.PushPatterns, Upstream: g.Upstream, GH: g.GH, GHRead: g.GHRead, Nested: g.Nested, NoSettings: l.Config.Home.withoutGit()}
}
