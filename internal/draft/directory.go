package draft

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cofferhq/coffer/internal/hint"
)

// Directory makes a directory, and those above it. Where the user has put a link to a disk that
// is not there, the kernel would say that the file exists.
func Directory(path string, mode fs.FileMode) error {
	err := os.MkdirAll(path, mode)
	var at *fs.PathError
	if !errors.Is(err, fs.ErrExist) || !errors.As(err, &at) {
		return err
	}
	to, linkErr := os.Readlink(at.Path)
	if linkErr != nil {
		return err
	}
	return hint.Wrap(fmt.Errorf("%s is a link to %s, which is not there", at.Path, to),
		"make or mount what it leads to, or remove the link: rm %s", at.Path)
}
