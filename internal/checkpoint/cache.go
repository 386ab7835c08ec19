package checkpoint

import (
	"bytes"
	"context"
	"encoding/gob"
	"os"
	"path/filepath"
)

// The cache is ours alone, and what it does not have, or has as it no longer is, is read from the
// files. It is gob and not JSON, in which the paths, whose bytes a stranger chose, do not fit.

// A Seed is what a file looked like when it was last read.
type Seed struct {
	Path string
	Stat Stat // without a mode, what git's index has: of inode and size, the lower 32 bits
	Item Item
}

// Seed says how to fill the cache if there is none: from git's index of the workspace,
// which git on the host wrote.
func (s *Store) Seed(all func(context.Context) []Seed) { s.seed = all }

func (s *Store) writeCache() {
	all := make([]Seed, 0, len(s.files))
	for p, f := range s.files {
		if f.stat != (Stat{}) && f.item.Mode != 0 {
			all = append(all, Seed{p, f.stat, f.item})
		}
	}
	var b bytes.Buffer
	if gob.NewEncoder(&b).Encode(all) == nil && s.write("cache", b.Bytes()) == nil {
		s.stale = 0
	}
}

func (s *Store) readCache(ctx context.Context) (all []Seed) {
	b, err := os.ReadFile(filepath.Join(s.dir, "cache"))
	if err == nil && gob.NewDecoder(bytes.NewReader(b)).Decode(&all) == nil {
		return all
	}
	if s.seed != nil {
		return s.seed(ctx)
	}
	return nil
}
