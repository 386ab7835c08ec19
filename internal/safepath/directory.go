package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/ui"
)

// Directory makes a directory, and those above it. Where the user has put a link to a disk that
// is not there, the kernel would say that the file exists.
func Directory(path string, mode fs.FileMode) error {
	err := os.MkdirAll(path, mode)
	if errors.Is(err, fs.ErrExist) {
		if dangling := Dangling(path); dangling != nil {
			return dangling
		}
	}
	return err
}

// Dangling says of a path where nothing is whether that is because of a link, there or further up,
// which leads nowhere: what the user has there is only away.
func Dangling(path string) error {
	for ; ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); err == nil || path == filepath.Dir(path) {
			break
		}
	}
	to, err := os.Readlink(path)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return ui.Hint(fmt.Errorf("%s is a link to %s, which is not there", path, to),
		"make or mount what it leads to, or remove the link: rm %s", path)
}
