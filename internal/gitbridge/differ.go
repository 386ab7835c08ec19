package gitbridge

import (
	"strings"

	"github.com/cofferhq/coffer/internal/gitbridge/index"
	"github.com/cofferhq/coffer/internal/gitbridge/loose"
)

// A differ finds out what two commits have not in common.
type differ struct {
	blobs   *recent
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
