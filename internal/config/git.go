package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
)

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
