package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
)

// Within says whether path lies below dir. Both are clean and absolute.
func Within(path, dir string) bool {
	if dir == "/" {
		return path != "/"
	}
	return strings.HasPrefix(path, dir+"/")
}

// Covers says whether path is dir or lies below it. Both are clean and absolute.
func Covers(dir, path string) bool { return path == dir || Within(path, dir) }

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
		"make or mount what it leads to, or remove the link: %s", ui.Command("rm", path))
}

// UserData is where coffer keeps a user's files: below $XDG_DATA_HOME when that is an absolute
// path, as the XDG specification demands, else below ~/.local/share.
func UserData() (string, error) {
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home, err := homeDir()
		if err != nil {
			return "", err
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "coffer"), nil
}

// homeDir asks the environment first: a user who sets HOME means it.
func homeDir() (string, error) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	uid := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(uid); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", ui.Error(fmt.Sprintf("no home directory: HOME is not set and uid %s has no passwd entry", uid),
		"set HOME or XDG_DATA_HOME to a directory you own")
}
