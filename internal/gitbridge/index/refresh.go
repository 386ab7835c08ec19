package index

import "github.com/cofferhq/coffer/internal/gitindex"

// Files are those that an index is about.
type Files interface {
	// Stat is what the kernel says of a file; none if there is no file or link.
	Stat(name string) (s Stat, ok bool)
	// Name is the name of what is in a file, raw, and what the kernel says of the file that
	// was read. Not to know is an error.
	Name(name string) (id string, s Stat, err error)
}

// Refresh notes what the kernel says of the files that are as the index says. Written is when
// the index was, in nanoseconds: a file that is no older may have been changed since unseen.
// Other tells of those that are not as it says.
func (x *Index) Refresh(written int64, files Files, other func(name string)) error {
	for i := range x.Entries {
		e := &x.Entries[i]
		if e.Flags&gitindex.Assumed != 0 || e.More&gitindex.Skipped != 0 || e.Mode == gitindex.Gitlink {
			continue
		}
		now, ok := files.Stat(e.Name)
		racy := e.Mtime() >= written
		if !ok || now == e.Stat && !racy {
			continue
		}
		if now.Mode == e.Mode {
			id, read, err := files.Name(e.Name)
			if err != nil {
				return err
			}
			if id == e.ID && read.Mode == e.Mode {
				e.Stat = read
				continue
			}
		}
		if racy && now == e.Stat {
			e.Size = 0 // by which git knows that it has to look
		}
		other(e.Name)
	}
	return nil
}
