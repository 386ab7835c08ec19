package gitbridge

import (
	"context"
	"io"
	"os"
	"path"

	"github.com/cofferhq/coffer/internal/gitbridge/index"
	"github.com/cofferhq/coffer/internal/tree"
)

// maxPlainIndex bounds how large an index is changed here.
const maxPlainIndex = 64 << 20

// editIndex writes a draft of the host's index, as git would with read-tree -m and update-index
// --refresh, if there is nothing unusual about it; see package index.
func (b *Bridge) editIndex(ctx context.Context, from, draft, was, is string, c *crew) error {
	defer context.AfterFunc(ctx, c.cancel)() // or who reads objects would be waited for
	config, err := c.config()
	if err != nil {
		return err
	}
	for _, key := range []string{"core.filemode", "core.symlinks", "core.trustctime"} {
		if v := config.config[key]; v != "" && v != "true" {
			return index.ErrUnusual
		}
	}
	for _, key := range []string{"core.ignorestat", "core.ignorecase", "core.sparsecheckout", "core.checkstat"} {
		if v := config.config[key]; v != "" && v != "false" && v != "default" {
			return index.ErrUnusual
		}
	}
	x, written, err := b.readIndex(from)
	if err != nil {
		return err
	}
	d := differ{blobs: c.objects, size: b.idSize()}
	if err := d.commits(was, is); err != nil {
		return err
	}
	if err := x.Apply(d.changes); err != nil {
		return err
	}
	top, err := tree.Open(b.Tree)
	if err != nil {
		return err
	}
	files := &files{top: top, format: b.Format, left: maxNamed}
	defer files.close()
	changed := false
	if err := x.Refresh(written, files, func(string) { changed = true }); err != nil {
		return err
	}
	// A file that is not as the index says may be, by git's reading of it.
	if changed && config.converts(attributes(x)) {
		return index.ErrUnusual
	}
	return os.WriteFile(draft, x.Bytes(), 0o666)
}

// readIndex reads an index of the host's, and when it was written.
func (b *Bridge) readIndex(path string) (x *index.Index, written int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPlainIndex))
	if err != nil {
		return nil, 0, err
	}
	x, err = index.Parse(data, b.idSize())
	return x, info.ModTime().UnixNano(), err
}

// attributes are the files of an index that say how others are read.
func attributes(x *index.Index) tree.Manifest {
	m := tree.Manifest{}
	for _, e := range x.Entries {
		if path.Base(e.Name) == ".gitattributes" {
			m[e.Name] = tree.Item{}
		}
	}
	return m
}
