package gitbridge

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/cofferhq/coffer/internal/gitbridge/index"
	"github.com/cofferhq/coffer/internal/gitbridge/loose"
	"github.com/cofferhq/coffer/internal/tree"
	"golang.org/x/sys/unix"
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

// A differ finds out what two commits have not in common.
type differ struct {
	blobs   *Blobs
	size    int
	read    int // bytes, and more
	changes []index.Change
}

// Bounds of what is compared.
const (
	maxDiffer  = 16 << 20
	perObject  = 1 << 10 // what each counts besides: a few trees can lead to millions that are the same, or empty
	maxChanges = 20000
)

func (d *differ) get(id string) ([]byte, error) {
	if d.read >= maxDiffer {
		return nil, index.ErrUnusual
	}
	text, size, err := d.blobs.Read(id, int64(maxDiffer-d.read))
	if err == nil && int64(len(text)) != size {
		err = index.ErrUnusual
	}
	d.read += len(text) + perObject
	return text, err
}

func (d *differ) commits(was, is string) error {
	trees := [2]string{}
	for i, id := range []string{was, is} {
		text, err := d.get(id)
		if err != nil {
			return err
		}
		line, _, _ := strings.Cut(string(text), "\n")
		var ok bool
		if trees[i], ok = strings.CutPrefix(line, "tree "); !ok {
			return index.ErrUnusual
		}
	}
	return d.trees("", trees[0], trees[1], 0)
}

// trees compares two directories, of which one may not be there.
func (d *differ) trees(prefix, was, is string, deep int) error {
	if was == is {
		return nil
	}
	if deep > maxDeep {
		return index.ErrUnusual
	}
	before, err := d.entries(was)
	if err != nil {
		return err
	}
	after, err := d.entries(is)
	if err != nil {
		return err
	}
	all := map[string][2]loose.Entry{}
	for _, e := range before {
		all[e.Name] = [2]loose.Entry{e, {}}
	}
	for _, e := range after {
		all[e.Name] = [2]loose.Entry{all[e.Name][0], e}
	}
	for name, pair := range all {
		if pair[0] == pair[1] {
			continue
		}
		var dirs [2]string
		var items [2]index.Item
		for i, e := range pair {
			switch {
			case e.Mode == loose.Directory:
				dirs[i] = e.ID
			case e.ID != "":
				items[i] = index.Item{Mode: e.Mode, ID: raw(e.ID)}
			}
		}
		if items[0] != items[1] {
			d.changes = append(d.changes, index.Change{Name: prefix + name, Was: items[0], Is: items[1]})
		}
		if err := d.trees(prefix+name+"/", dirs[0], dirs[1], deep+1); err != nil {
			return err
		}
	}
	if len(d.changes) > maxChanges {
		return index.ErrUnusual
	}
	return nil
}

func (d *differ) entries(id string) ([]loose.Entry, error) {
	if id == "" {
		return nil, nil
	}
	text, err := d.get(id)
	if err != nil {
		return nil, err
	}
	return loose.ParseTree(text, d.size)
}

// maxNamed bounds how much of files is read.
const maxNamed = 64 << 20

// files are those of a worktree, which a stranger writes: no link is followed.
type files struct {
	top    *tree.Dir
	format string
	left   int64

	dir *tree.Dir // the last one that was looked into, or nil
	at  string
}

func (f *files) close() {
	if f.dir != nil {
		f.dir.Close()
	}
	f.top.Close()
}

// find opens the directory of a path, unless it is the last one's.
func (f *files) find(name string) (dir *tree.Dir, base string, err error) {
	at, base := path.Split(name)
	if f.dir == nil || f.at != at {
		dir, _, err := f.top.Find(name)
		if err != nil {
			return nil, "", err
		}
		if f.dir != nil {
			f.dir.Close()
		}
		f.dir, f.at = dir, at
	}
	return f.dir, base, nil
}

// Stat is part of index.Files.
func (f *files) Stat(name string) (s index.Stat, ok bool) {
	dir, base, err := f.find(name)
	if err != nil {
		return s, false
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir.FD(), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return s, false
	}
	s = statOf(&st)
	return s, s.Mode != 0
}

func statOf(st *unix.Stat_t) index.Stat {
	s := index.Stat{
		ChangedSec: uint32(st.Ctim.Sec), ChangedNsec: uint32(st.Ctim.Nsec), MtimeSec: uint32(st.Mtim.Sec), MtimeNsec: uint32(st.Mtim.Nsec),
		Dev: uint32(st.Dev), Inode: uint32(st.Ino), UID: st.Uid, GID: st.Gid, Size: uint32(st.Size),
	}
	if s.Size == 0 && st.Size != 0 {
		s.Size = 1 << 31
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		s.Mode = tree.Symlink
	case st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o100 != 0:
		s.Mode = tree.Executable
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		s.Mode = tree.Regular
	}
	return s
}

// Name is part of index.Files.
func (f *files) Name(name string) (id string, s index.Stat, err error) {
	dir, base, err := f.find(name)
	if err != nil {
		return "", s, err
	}
	s, _ = f.Stat(name)
	if s.Mode == tree.Symlink {
		text, err := dir.Link(base)
		if err != nil {
			return "", s, err
		}
		id, err = tree.Name(f.format, strings.NewReader(text), int64(len(text)), nil)
		if now, _ := f.Stat(name); err == nil && now != s {
			err = tree.ErrBusy
		}
		return raw(id), s, err
	}
	file, _, err := dir.Open(base)
	if err != nil {
		return "", s, err
	}
	defer file.Close()
	var st [2]unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st[0]); err != nil {
		return "", s, err
	}
	// What is counted is what is read: meanwhile it may grow to any size.
	if f.left -= st[0].Size; f.left < 0 {
		return "", s, fmt.Errorf("%w: it is of large files", index.ErrUnusual)
	}
	id, err = tree.Name(f.format, file, st[0].Size, nil)
	if err = errors.Join(err, unix.Fstat(int(file.Fd()), &st[1])); err == nil && statOf(&st[0]) != statOf(&st[1]) {
		err = tree.ErrBusy
	}
	return raw(id), statOf(&st[0]), err
}

func raw(id string) string {
	b, _ := hex.DecodeString(id)
	return string(b)
}
