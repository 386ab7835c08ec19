package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/rogpeppe/go-internal/diff"
)

// Trust is a directory of grants. A grant is for the whole content of the files of a repository
// and of the presets that they name: its name is their hash. It also has the list that the user
// saw. The list may grow while the files stay the same, because a link leads elsewhere or the
// user's config says less; then the user is asked again.
type Trust struct{ dir string }

// A File is one that the user agrees to.
type File struct {
	Path string `json:"path"` // from the repository, if it is in it
	Sum  string `json:"sha256"`
	Text string `json:"text"` // to show what has changed since
}

func newFile(path, text string) File {
	sum := sha256.Sum256([]byte(text))
	return File{path, hex.EncodeToString(sum[:]), text}
}

func (f File) same(o File) bool { return f.Path == o.Path && f.Sum == o.Sum }

// A Grant is one yes.
type Grant struct {
	Version    int       `json:"version"`
	Repository string    `json:"repository"`
	Widens     []string  `json:"widens"`
	Given      time.Time `json:"given"`
	Files      []File    `json:"files"`
}

// grantVersion is that of a yes to files. A yes of version 1 was to sentences, and does not count.
const grantVersion = 2

// maxGrant bounds a file of the directory.
const maxGrant = 16 << 20

// TrustStore is where this user's yeses are.
// One that programs in the sandbox could write to would be worth nothing.
func (p Places) TrustStore() (Trust, error) {
	if holds(p.Dir, p.Trust) != "" {
		return Trust{}, ui.Error(fmt.Sprintf("what you agree to is kept in %s, which is in the workspace: programs could agree to it themselves", realPlace(p.Trust)),
			"use --trust for each run, or set XDG_STATE_HOME to another directory")
	}
	return Trust{p.Trust}, nil
}

// grantName is of all that was agreed to, written so that no two yeses have the same.
func grantName(repository string, files []File) string {
	words := []string{repository}
	for _, f := range files {
		words = append(words, f.Path, f.Sum)
	}
	text, _ := json.Marshal(words) // strings always can be
	return newFile("", string(text)).Sum + ".json"
}

// Has reports whether the user has agreed to the files of a repository as they are, when they
// asked for no less than they do now.
func (t Trust) Has(l *Loaded, widens []string) (bool, error) {
	g, err := t.read(grantName(l.Repository, l.asked))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	// The name says it all, but a file that was put there by mistake says otherwise.
	same := g.Version == grantVersion && g.Repository == l.Repository && slices.EqualFunc(g.Files, l.asked, File.same)
	return same && !slices.ContainsFunc(widens, func(w string) bool { return !slices.Contains(g.Widens, w) }), err
}

// Add remembers a yes to the files of a repository, and what they ask for.
func (t Trust) Add(l *Loaded, widens []string) error {
	g := Grant{Version: grantVersion, Repository: l.Repository, Widens: widens, Given: time.Now().UTC().Truncate(time.Second), Files: l.asked}
	data, err := json.MarshalIndent(g, "", "  ")
	if err == nil {
		err = os.MkdirAll(t.dir, 0o700)
	}
	if err == nil {
		err = safepath.File{Path: filepath.Join(t.dir, grantName(l.Repository, l.asked)), Synced: true}.Write(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("remember your answer: %w", err)
	}
	return nil
}

// Changes is a diff of the files of a repository from those that the user agreed to last, "" if
// there is none.
func (t Trust) Changes(l *Loaded) string {
	all, err := t.List()
	if err != nil {
		return ""
	}
	var last []File
	for _, g := range all {
		if g.Repository == l.Repository {
			last = g.Files
		}
	}
	if last == nil {
		return ""
	}
	texts := func(files []File) map[string]string {
		m := map[string]string{}
		for _, f := range files {
			m[f.Path] = f.Text
		}
		return m
	}
	was, is := texts(last), texts(l.asked)
	paths := maps.Clone(was)
	maps.Copy(paths, is)
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		_, lines, _ := strings.Cut(string(diff.Diff(path+", agreed to", []byte(was[path]), path+", now", []byte(is[path]))), "\n")
		b.WriteString(lines)
	}
	return b.String()
}

// List returns all yeses, the oldest first.
func (t Trust) List() (list []Grant, err error) {
	files, err := t.files()
	for _, name := range files {
		g, err := t.read(name)
		if err != nil {
			return list, err
		}
		if g.Version == grantVersion {
			list = append(list, g)
		}
	}
	slices.SortStableFunc(list, func(a, b Grant) int { return a.Given.Compare(b.Given) })
	return list, err
}

// Revoke takes back the yeses for a repository, or all of them if it is "".
func (t Trust) Revoke(repository string) (n int, err error) {
	files, err := t.files()
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		if g, err := t.read(name); repository != "" && (err != nil || g.Repository != repository) {
			continue
		}
		if err := os.Remove(filepath.Join(t.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		n++
	}
	return n, nil
}

func (t Trust) files() (names []string, err error) {
	all, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range all {
		if strings.HasSuffix(f.Name(), ".json") {
			names = append(names, f.Name())
		}
	}
	return names, err
}

func (t Trust) read(name string) (g Grant, err error) {
	file := filepath.Join(t.dir, name)
	data, err := safepath.ReadOwn(file, maxGrant)
	if errors.Is(err, fs.ErrNotExist) {
		return g, err
	}
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err == nil && g.Version > grantVersion {
		err = fmt.Errorf("has version %d, which this coffer does not know", g.Version)
	}
	if err != nil {
		err = fmt.Errorf("read what you agreed to: %s: %w", file, err)
	}
	return g, err
}
