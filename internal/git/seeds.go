package git

import (
	"encoding/hex"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/rootfs"
)

// seeds are the files as git wrote or last saw them, from the host's index: a first look at a
// workspace need not read them.
func (s *State) seeds() (all []checkpoint.Seed) {
	path := filepath.Join(s.Admin, "index")
	entries, err := rootfs.Index(path)
	info, serr := os.Lstat(path)
	if err != nil || serr != nil {
		return nil
	}
	for _, e := range entries {
		// A file that is as young as the index may have changed since unseen.
		if e.Changed >= info.ModTime().UnixNano() || e.Mode == checkpoint.Gitlink {
			continue
		}
		all = append(all, checkpoint.Seed{
			Path: e.Name, Item: checkpoint.Item{Mode: e.Mode, ID: hex.EncodeToString([]byte(e.ID))},
			Stat: checkpoint.Stat{Inode: uint64(e.Inode), Size: int64(e.Size), Mtime: e.Mtime, Changed: e.Changed},
		})
	}
	return all
}

// converts reports whether git, or a program that it runs, may change files on their way to
// the index and back.
func (r *Repository) converts(base checkpoint.Manifest) bool {
	for _, key := range []string{"core.autocrlf", "core.eol", "core.attributesfile"} {
		if v := r.config[key]; v != "" && v != "false" && v != "lf" {
			return true
		}
	}
	for key, value := range r.config {
		if strings.HasPrefix(key, "filter.") && value != "" {
			return true
		}
	}
	for p := range base {
		if path.Base(p) == ".gitattributes" {
			return true
		}
	}
	return isFile(filepath.Join(r.Common, "info", "attributes")) || isFile(filepath.Join(userConfigDir(), "attributes"))
}
