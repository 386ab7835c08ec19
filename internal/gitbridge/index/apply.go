package index

import (
	"slices"
	"sort"
	"strings"

	"github.com/cofferhq/coffer/internal/gitindex"
)

// An Item is what an entry is about, and nothing if there is none.
type Item struct {
	Mode uint32 // of a tree's entry
	ID   string // raw
}

// A Change is of a path, between two commits.
type Change struct {
	Name    string
	Was, Is Item
}

// Apply makes an index of one commit, in which other changes may be staged, that of another:
// what is staged stays. What is in the way of that is unusual. So are submodules.
func (x *Index) Apply(changes []Change) error {
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	out := make([]Entry, 0, len(x.Entries)+len(changes))
	rest, added := x.Entries, 0
	for _, e := range rest {
		if e.Mode == gitindex.Gitlink {
			return ErrUnusual
		}
	}
	for i, c := range changes {
		if i > 0 && changes[i-1].Name == c.Name || odd(c.Name) {
			return ErrUnusual
		}
		was, err := c.Was.canonical()
		if err != nil {
			return err
		}
		is, err := c.Is.canonical()
		if err != nil {
			return err
		}
		at := sort.Search(len(rest), func(i int) bool { return rest[i].Name >= c.Name })
		out, rest = append(out, rest[:at]...), rest[at:]
		var now Entry
		if len(rest) > 0 && rest[0].Name == c.Name {
			now, rest = rest[0], rest[1:]
		}
		switch staged := (Item{now.Mode, now.ID}); {
		case staged == is: // it is so already
			if is != (Item{}) {
				out = append(out, now)
			}
			continue
		case staged != was:
			return ErrUnusual
		case is != (Item{}):
			out = append(out, entry(c.Name, is, now))
		}
		if was == (Item{}) {
			added++
		}
		if x.trees != nil {
			x.trees.forget(c.Name)
		}
	}
	x.Entries = append(out, rest...)
	if added > 0 {
		return x.unambiguous(changes)
	}
	return nil
}

func (i Item) canonical() (Item, error) {
	if i == (Item{}) {
		return i, nil
	}
	mode := canonical(i.Mode)
	if mode == 0 || mode == gitindex.Gitlink {
		return i, ErrUnusual
	}
	return Item{mode, i.ID}, nil
}

// entry is one of which nothing is known but what it should be. That it is not among the files
// stays.
func entry(name string, i Item, now Entry) Entry {
	e := Entry{Name: name, ID: i.ID, Stat: Stat{Mode: i.Mode}, Flags: now.Flags & gitindex.Extended, More: now.More & gitindex.Skipped}
	e.Flags |= uint16(min(len(name), gitindex.NameMask))
	return e
}

// unambiguous says that no path that was added is a directory of another, or the other way.
func (x *Index) unambiguous(changes []Change) error {
	find := func(name string) (at int, ok bool) {
		at = sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].Name >= name })
		return at, at < len(x.Entries) && x.Entries[at].Name == name
	}
	for _, c := range changes {
		if c.Is == (Item{}) {
			continue
		}
		if at, _ := find(c.Name + "/"); at < len(x.Entries) && strings.HasPrefix(x.Entries[at].Name, c.Name+"/") {
			return ErrUnusual
		}
		for i := range c.Name {
			if c.Name[i] == '/' {
				if _, ok := find(c.Name[:i]); ok {
					return ErrUnusual
				}
			}
		}
	}
	return nil
}
