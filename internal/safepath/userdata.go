package safepath

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/cofferhq/coffer/internal/ui"
)

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
