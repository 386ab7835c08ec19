package config

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/mask"
)

// Files further down that say what to hide may also say what to show. Nobody looks through
// a whole tree before a start: 'coffer trust' and --trust ask about them. The yes is kept under
// a name that a start finds at once. A file that has changed since, or was never agreed to,
// only hides.

// A NestedFile is such a file.
type NestedFile struct {
	File
	shows []mask.Rule // what needs a yes
}

func (f NestedFile) rules() []mask.Rule {
	rules, _ := mask.Parse(f.Text, strings.TrimSuffix(filepath.Dir(f.Path), "."), f.Path) // lines that are none say nothing
	return rules
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
		files = append(files, more...)
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
		files = append(files, NestedFile{newFile(filepath.Join(r.Dir, mask.FileName), r.Text), r.Lines})
	}
	return files, nil
}

// rulesOf are the lines of all files, those of files further down last: they count more.
func rulesOf(files []NestedFile) (rules []mask.Rule) {
	slices.SortFunc(files, func(a, b NestedFile) int {
		return cmp.Or(strings.Count(a.Path, "/")-strings.Count(b.Path, "/"), strings.Compare(a.Path, b.Path))
	})
	for _, f := range files {
		rules = append(rules, f.rules()...)
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

// nestedMark is in the name of the yes to a repository's nested files, whatever is in them.
var nestedMark = []File{{Path: "nested masks"}}

// AddNested remembers a yes to files further down, in the place of an earlier one.
func (t Trust) AddNested(repository string, nested []NestedFile) error {
	return t.write(grantName(repository, nestedMark), Grant{Repository: repository, Widens: Sentences(nested), Files: plainFiles(nested), Nested: true})
}

// HasNested says whether the user has agreed to exactly these files.
func (t Trust) HasNested(repository string, nested []NestedFile) bool {
	has, err := t.has(grantName(repository, nestedMark), repository, plainFiles(nested), nil)
	return has && err == nil
}

func plainFiles(nested []NestedFile) (files []File) {
	for _, f := range nested {
		files = append(files, f.File)
	}
	return files
}

// agreedNested reads the files further down that the user has agreed to, and that still say
// what they said then. It is asked at every start: mostly there is nothing to open.
func (l *Loaded) agreedNested() error {
	p := l.places
	name := grantName(l.Repository, nestedMark)
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
		if !filepath.IsLocal(f.Path) || filepath.Base(f.Path) != mask.FileName || slices.ContainsFunc(l.ignoreFiles, func(o File) bool { return o.Path == f.Path }) {
			continue // it was read already
		}
		text, err := readIgnore(l.Repository, f.Path)
		switch {
		case err == nil && newFile(f.Path, text).same(f):
			files = append(files, NestedFile{File: newFile(f.Path, text)})
		case exists(filepath.Join(l.Repository, f.Path)):
			l.stale = append(l.stale, f.Path)
		}
	}
	l.TakeNested(files)
	return nil
}
