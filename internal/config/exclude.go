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

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
)

// maxExclude bounds a list of what git ignores.
const maxExclude = 1 << 20

// Exclude keeps git from tracking coffer.local.toml, by a line in info/exclude of the
// repository's own git directory, which for a linked worktree is that of the repository it
// belongs to. Where .git leads somewhere that does not lead back, the user has to see to it,
// and gets an error that says so.
func Exclude(root string) (added bool, err error) {
	at, err := rootfs.FindRepository(root)
	switch {
	case err != nil || at.Common == "" && exists(filepath.Join(root, ".git")):
		return false, ui.Error(fmt.Sprintf("%s/.git does not lead to a git directory of its own", root), fmt.Sprintf("add %s to what git ignores yourself", LocalName))
	case at.Common == "":
		return false, nil
	}
	r, err := os.OpenRoot(at.Common)
	if err != nil {
		return false, err
	}
	defer r.Close()
	if err := r.Mkdir("info", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	f, err := r.OpenFile(filepath.Join("info", "exclude"), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
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
