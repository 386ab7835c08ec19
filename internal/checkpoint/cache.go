package checkpoint

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The cache is a line for every file, ended by a zero. It is ours alone, and what it does
// not have, or has as it no longer is, is read from the files.

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
	b := make([]byte, 0, 128*len(s.files))
	for p, f := range s.files {
		if f.stat == (Stat{}) || f.item.Mode == 0 {
			continue
		}
		for _, n := range []int64{int64(f.stat.Inode), f.stat.Size, f.stat.Mtime, f.stat.Changed, int64(f.stat.Mode), int64(f.item.Mode)} {
			b = append(strconv.AppendInt(b, n, 10), ' ')
		}
		b = append(append(append(append(b, f.item.ID...), ' '), p...), 0)
	}
	if s.write("cache", b) == nil {
		s.stale = 0
	}
}

func (s *Store) readCache(ctx context.Context) (all []Seed) {
	b, err := os.ReadFile(filepath.Join(s.dir, "cache"))
	if err != nil {
		if s.seed != nil {
			all = s.seed(ctx)
		}
		return all
	}
	for line := range strings.SplitSeq(string(b), "\x00") {
		f := strings.SplitN(line, " ", 8)
		if len(f) != 8 {
			continue
		}
		var n [6]int64
		ok := validID(f[6])
		for i := range n {
			v, err := strconv.ParseInt(f[i], 10, 64)
			n[i], ok = v, ok && err == nil
		}
		if ok {
			all = append(all, Seed{f[7], Stat{Inode: uint64(n[0]), Size: n[1], Mtime: n[2], Changed: n[3], Mode: uint32(n[4])}, Item{Mode: uint32(n[5]), ID: f[6]}})
		}
	}
	return all
}
