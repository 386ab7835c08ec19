package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// readIgnoreFiles reads the .sandboxignore files from the repository's root to the workspace. Those
// further down are found by the walk of the workspace, and show nothing.
func (l *Loaded) readIgnoreFiles() error {
	rel, err := filepath.Rel(l.Repository, l.places.Dir)
	if err != nil || l.places.Dir == "" {
		return nil
	}
	dirs := []string{""}
	for dir := rel; dir != "."; dir = filepath.Dir(dir) {
		dirs = slices.Insert(dirs, 1, dir)
	}
	for _, dir := range dirs {
		file := filepath.Join(dir, mask.FileName)
		if !exists(filepath.Join(l.Repository, file)) {
			continue
		}
		text, err := readIgnore(l.Repository, file)
		if err != nil {
			return err
		}
		rules, err := mask.Parse(text, dir, file)
		if err != nil {
			return ui.Hint(err, "shorten the line")
		}
		l.ignored = append(l.ignored, rules...)
		l.ignoreFiles = append(l.ignoreFiles, newFile(file, text))
	}
	return nil
}

// readIgnore reads one of the files. A link counts as none: a walk of the tree does not follow it
// either.
func readIgnore(repository, file string) (string, error) {
	root, err := safepath.OpenDir(repository)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := safepath.ReadFile(root, file, mask.MaxFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read what to hide: %w", err)
	}
	return string(text), nil
}

// maskRules are the lines about masks: the user's own, and the repository's.
func (l *Loaded) maskRules() (own, wish []mask.Rule) {
	mine := len(l.Config.Masks)
	if l.base != nil {
		mine = len(l.base.Config.Masks) // merging leaves them in front
	}
	for i, line := range l.Config.Masks {
		r, says, err := mask.ParseLine(line, "", l.tree.get("masks", i).at.Origin())
		if err != nil || !says {
			continue // it was checked
		}
		if i < mine {
			own = append(own, r)
		} else {
			wish = append(wish, r)
		}
	}
	return own, append(wish, l.ignored...)
}

// Masks are the lines that say what to hide, as they go into a sandbox's record.
func (l *Loaded) Masks() (m sandbox.Masks) {
	own, wish := l.maskRules()
	for i, r := range append(own, wish...) {
		m.Rules = append(m.Rules, sandbox.Mask{Line: r.Text, From: r.From, Dir: r.Base(), Own: i < len(own)})
	}
	// A copy that was asked for by name, and agreed to, is there to be read.
	for i, file := range l.Config.Git.Copy {
		m.Rules = append(m.Rules, sandbox.Mask{Line: "!/" + exactly(file), From: l.tree.get("git", "copy", i).at.Origin()})
	}
	if len(m.Rules) == 0 {
		return m
	}
	if rel, err := filepath.Rel(l.Repository, l.places.Dir); err == nil && rel != "." {
		m.Prefix = rel
	}
	return m
}

// exactly is a path in .gitignore's language.
func exactly(path string) string {
	path = strings.NewReplacer(`\`, `\\`).Replace(path)
	if trimmed := strings.TrimRight(path, " "); trimmed != path {
		path = trimmed + strings.Repeat(`\ `, len(path)-len(trimmed))
	}
	return path
}

// MasksShown are the lines of the repository that show what others hide.
func (l *Loaded) MasksShown() []mask.Rule {
	own, wish := l.maskRules()
	return mask.Shows(own, wish)
}

func (k *checker) masks() {
	for i, line := range k.Masks {
		_, says, err := mask.ParseLine(line, "", "")
		switch {
		case err != nil:
		case strings.Contains(line, "\n"):
			err = errors.New("is more than one line")
		case !says:
			err = errors.New("says nothing: it is empty or a comment")
		}
		k.at(path("masks", i), err)
	}
}
