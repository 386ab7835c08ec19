package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/mask"
)

// Files further down that say what to hide may also say what to show. Nobody looks through
// a whole tree before a start, so they are asked about by who has the time: 'coffer trust'
// and --trust. A yes is for a file's whole content, and kept under a name that a start finds
// at once. A file that has changed since, or was never agreed to, only hides.

// A NestedFile is such a file.
type NestedFile struct {
	Path string `json:"path"` // from the repository
	Sum  string `json:"sha256"`

	rules []mask.Rule // all of it
	shows []mask.Rule // what needs a yes
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// maxRounds is how many times a directory can come to light in one that a line has shown.
const maxRounds = 16

// FindNested looks through the repository for files further down whose lines would show
// what is hidden.
func (l *Loaded) FindNested(ctx context.Context) (files []NestedFile, err error) {
	if l.places.Dir == "" {
		return nil, nil
	}
	own, wish := l.maskRules()
	wish = wish[:len(wish)-len(l.nested)]
	for range maxRounds {
		more, err := refused(ctx, l.Repository, mask.NewSet(own, append(slices.Clip(wish), rulesOf(files)...), ""))
		if err != nil || len(more) == 0 {
			return files, err
		}
		files = inDepth(append(files, more...))
	}
	return nil, fmt.Errorf("%s shows directories in each other, more than %d deep", mask.FileName, maxRounds)
}

// refused lists the files of a tree with lines that would need a yes.
func refused(ctx context.Context, root string, set *mask.Set) (files []NestedFile, err error) {
	tree, err := mask.Open(root, set)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	if _, err := tree.Scan(ctx); err != nil {
		return nil, err
	}
	for _, r := range set.Refused() {
		f := NestedFile{Path: filepath.Join(r.Dir, mask.FileName), Sum: sumOf(r.Text), shows: r.Lines}
		f.rules, _ = mask.Parse(r.Text, r.Dir, f.Path) // lines that are none say nothing
		files = append(files, f)
	}
	return files, nil
}

// inDepth sorts files so that those further down count more.
func inDepth(files []NestedFile) []NestedFile {
	slices.SortFunc(files, func(a, b NestedFile) int {
		return cmp.Or(strings.Count(a.Path, "/")-strings.Count(b.Path, "/"), strings.Compare(a.Path, b.Path))
	})
	return files
}

func rulesOf(files []NestedFile) (rules []mask.Rule) {
	for _, f := range files {
		rules = append(rules, f.rules...)
	}
	return rules
}

// Sentences are what a yes to these files means.
func Sentences(files []NestedFile) (list []string) {
	for _, f := range files {
		for _, r := range f.shows {
			list = append(list, maskSentence(r))
		}
	}
	return list
}

func maskSentence(r mask.Rule) string {
	return fmt.Sprintf("masks: programs can see files that are hidden otherwise, by the line %s of %s", r.Text, r.From)
}

// TakeNested has files count that the user has agreed to, for now or for good.
func (l *Loaded) TakeNested(files []NestedFile) { l.nested = rulesOf(files) }

// Stale are the files further down that have changed since the user agreed to them.
func (l *Loaded) Stale() []string { return l.stale }

// nestedName is what the yes to a repository's nested files is called.
func nestedName(repository string) string {
	return hash(repository, []string{"nested masks"}) + ".json"
}

// AddNested remembers a yes to files further down, in the place of an earlier one.
func (t Trust) AddNested(repository string, files []NestedFile) error {
	return t.write(nestedName(repository), Grant{Repository: repository, Widens: Sentences(files), Files: files})
}

// HasNested says whether the user has agreed to exactly these files.
func (t Trust) HasNested(repository string, files []NestedFile) bool {
	g, err := t.read(nestedName(repository))
	return err == nil && g.Repository == repository && slices.EqualFunc(g.Files, files, func(a, b NestedFile) bool {
		return a.Path == b.Path && a.Sum == b.Sum
	})
}

// agreedNested reads the files further down that the user has agreed to, and that still say
// what they said then. It is asked at every start: mostly there is nothing to open.
func (l *Loaded) agreedNested() error {
	p := l.places
	name := nestedName(l.Repository)
	if p.Dir == "" || !exists(filepath.Join(p.Trust, name)) {
		return nil
	}
	store, err := p.TrustStore()
	if err != nil {
		return nil // programs could have agreed to it themselves
	}
	g, err := store.read(name)
	if err != nil || g.Repository != l.Repository {
		return err
	}
	var files []NestedFile
	for _, f := range g.Files {
		if !filepath.IsLocal(f.Path) || filepath.Base(f.Path) != mask.FileName || slices.ContainsFunc(l.ignored, func(r mask.Rule) bool { return filepath.Join(r.Base(), mask.FileName) == f.Path }) {
			continue // it was read already
		}
		text, err := readIgnore(l.Repository, f.Path)
		switch {
		case err == nil && sumOf(text) == f.Sum:
			f.rules, _ = mask.Parse(text, strings.TrimSuffix(filepath.Dir(f.Path), "."), f.Path)
			files = append(files, f)
		case exists(filepath.Join(l.Repository, f.Path)):
			l.stale = append(l.stale, f.Path)
		}
	}
	l.TakeNested(inDepth(files))
	return nil
}
