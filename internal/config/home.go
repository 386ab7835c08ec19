package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// maxHomeFiles bounds how many files and directories of a home are shown.
const maxHomeFiles = 64

func (k *checker) home() {
	for i, f := range k.Home.Files {
		k.at(path("home", "files", i), checkHomeFile(f))
	}
	if len(k.Home.Files) > maxHomeFiles {
		k.at(path("home", "files"), fmt.Errorf("there are %d, and can be %d", len(k.Home.Files), maxHomeFiles))
	}
}

func checkHomeFile(s string) error {
	rest, ok := strings.CutPrefix(s, "~/")
	if !ok || !filepath.IsLocal(rest) || filepath.Clean(rest) != rest || rest == "." || strings.ContainsRune(s, 0) || len(s) > 4096 {
		return fmt.Errorf("%s is not the path of a file in your home, such as ~/.config/git/ignore", quote(s))
	}
	return nil
}

// homeFiles finds the files of the user's home that are to be shown. One that is not there
// is left out: people share configs, and do not all have the same files.
func (l *Loaded) homeFiles() (list []mount, problems Problems) {
	for i, f := range l.Config.Home.Files {
		at := l.tree.get("home", "files", i).at
		one := mount{name: f, at: at}
		one.Target = filepath.Join(l.places.Home, strings.TrimPrefix(f, "~/"))
		one.ReadOnly, one.Copy = true, true
		real, err := filepath.EvalSymlinks(one.Target)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			var info os.FileInfo
			if info, err = os.Stat(real); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
				err = fmt.Errorf("%s is neither a file nor a directory", real)
			}
			one.dir = err == nil && info.IsDir()
		}
		if one.Source = real; err == nil {
			err = l.allowed(one)
		}
		if err == nil {
			err = l.inTheWay(one)
		}
		if err != nil {
			problems.add(at, "home.files: %s", err)
			continue
		}
		list = append(list, one)
	}
	return list, problems
}

// inTheWay refuses what would lie over files that an agent has to write: it could do
// nothing there, and neither could what coffer has to say to it.
func (l *Loaded) inTheWay(m mount) error {
	name := strings.TrimPrefix(m.name, "~/")
	for _, a := range l.Known() {
		written := append(slices.Clone(a.Settings), a.Talks)
		for _, c := range a.Credentials {
			if c.Name == name {
				return fmt.Errorf("%s is the login of %s, which renews it: have it copied with 'coffer login %s --import'", m.name, a.Name, a.Name)
			}
			written = append(written, c.Name)
		}
		if m.dir && slices.ContainsFunc(written, func(w string) bool { return on(w, name) }) {
			return fmt.Errorf("%s is where %s writes: name files and directories in it that it only reads, or has its settings in", m.name, a.Name)
		}
	}
	return nil
}

func (h Home) withoutGit() bool { return h.Git != nil && !*h.Git }

// given is homeFiles, the first time: what the user agrees to is what is shown.
func (l *Loaded) given() ([]mount, Problems) { return once(&l.files, l.homeFiles) }

// HomeFiles are the files of the user's home that the sandbox is given copies of.
func (l *Loaded) HomeFiles() (list []sandbox.Mount, err error) {
	all, problems := l.given()
	for _, m := range all {
		list = append(list, m.Mount)
	}
	return list, problems.tidy()
}
