package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxExclude bounds a list of what git ignores.
const maxExclude = 1 << 20

// Exclude keeps git from tracking coffer.local.toml, by a line in the repository's own
// .git/info/exclude. Where .git is a link to somewhere else, as in a worktree, the user
// has to see to it, and gets an error that says so.
func Exclude(root string) (added bool, err error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return false, err
	}
	defer r.Close()
	info, err := r.Lstat(".git")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fmt.Errorf("%s/.git is no directory: add %s to what git ignores yourself", root, LocalName)
	}
	if err := r.Mkdir(".git/info", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	f, err := r.OpenFile(filepath.Join(".git", "info", "exclude"), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxExclude))
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == LocalName || line == "/"+LocalName {
			return false, nil
		}
	}
	text := "/" + LocalName + "\n"
	if len(data) > 0 && data[len(data)-1] != '\n' {
		text = "\n" + text
	}
	_, err = f.WriteString(text)
	return err == nil, err
}
