package git

import (
	"context"
	"encoding/hex"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/rootfs"
)

// A first look at a workspace need not read files of which git's index knows what is in
// them.

// seeds are the files as git wrote or last saw them, from the host's index.
func (b *Bridge) seeds() (all []checkpoint.Seed) {
	path := filepath.Join(b.Admin, "index")
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

// plainSeeds are those of a directory of the user's. There, a file is to come back as it
// was, and not as git would check it out: so those that git converts are read.
func (b *Bridge) plainSeeds(ctx context.Context, r *Repository, base checkpoint.Manifest, commit string) []checkpoint.Seed {
	if !r.converts(base) {
		return b.seeds()
	}
	if r.filters() {
		return nil
	}
	// What ends of lines or an encoding were changed of has another size, or they were not.
	sizes, err := b.History().sizes(ctx, commit)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(b.seeds(), func(s checkpoint.Seed) bool {
		size, ok := sizes[s.Item.ID]
		return !ok || size != s.Stat.Size
	})
}

// filters says whether programs change files on their way to the index and back.
func (r *Repository) filters() bool {
	for key, value := range r.config {
		if strings.HasPrefix(key, "filter.") && value != "" {
			return true
		}
	}
	return false
}

// converts says whether git may change files by itself on their way.
func (r *Repository) converts(base checkpoint.Manifest) bool {
	for _, key := range []string{"core.autocrlf", "core.eol", "core.attributesfile"} {
		if v := r.config[key]; v != "" && v != "false" && v != "lf" {
			return true
		}
	}
	for p := range base {
		if path.Base(p) == ".gitattributes" {
			return true
		}
	}
	home, _ := os.UserHomeDir()
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	return isFile(filepath.Join(r.Common, "info", "attributes")) || isFile(filepath.Join(config, "git", "attributes"))
}

// sizes says how large the contents of a commit are, by their names.
func (h *History) sizes(ctx context.Context, commit string) (map[string]int64, error) {
	all := map[string]int64{}
	if commit == "" {
		return all, nil
	}
	out, err := h.host.run(ctx, "", "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
	for line := range strings.SplitSeq(out, "\x00") {
		about, _, _ := strings.Cut(line, "\t")
		if f := strings.Fields(about); len(f) == 4 {
			if n, err := strconv.ParseInt(f[3], 10, 64); err == nil {
				all[f[2]] = n
			}
		}
	}
	return all, err
}
