package changes

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// place is one name in an upper directory and in the lower one, if there is one.
type place struct {
	rel, name   string
	dir, lowDir *os.File
}

// onlyIndex says whether all that is different in a git directory is what git remembers about
// files. Any git status does that, nothing of it is ever applied, and nobody would miss it.
func (w *walker) onlyIndex(p place) bool {
	if p.name != ".git" {
		return false
	}
	dir, err := w.upper.dir(p.rel)
	if err != nil {
		return false
	}
	defer dir.Close()
	m, err := readMarks(dir)
	if err != nil || m.opaque {
		return false
	}
	switch names, err := dir.Readdirnames(2); {
	case err == io.EOF:
		return true // it made a lock, and took it away
	case err != nil || len(names) != 1 || names[0] != "index":
		return false
	}
	index, err := statAt(dir, "index")
	return err == nil && index.is(unix.S_IFREG)
}

// reason is why a name is left alone whatever it is.
func (p place) reason() Reason {
	switch {
	case IsGit(p.name):
		return SkipGit
	case isTemp(p.name):
		return SkipReserved
	case len(p.rel) > maxPath:
		return SkipTooLong
	}
	return ""
}
