// Package loose finds what was committed in a git directory, as long as it is little and
// lies there as git has written it: an object is a file of its own, in the first place.
//
// It exists because a user waits for his commits at the end of every command. To have git
// hand them out takes two programs in the sandbox, one after the other, and ten milliseconds;
// to read a few files takes one. All that is read is a stranger's. It is only found here, and
// made into a pack; what is in it, and that nothing is missing, is for git to check, as if
// git had sent it. So whatever is unusual is just not found: then git is asked to send it.
package loose

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what is read.
const (
	MaxObjects = 99
	MaxBytes   = 4 << 20      // of all objects, as they are when they are not compressed
	maxPacked  = 2 * MaxBytes // and as they are in files
	maxLook    = 1000         // objects that are read to see what has changed
)

// ErrUnusual is for what only git knows how to find.
var ErrUnusual = errors.New("the commits are not a few files")

// A Kind is that of an object, by the number that packs have for it.
type Kind byte

const (
	Commit Kind = 1
	Tree   Kind = 2
	Blob   Kind = 3
	Tag    Kind = 4
)

var kinds = map[string]Kind{"commit": Commit, "tree": Tree, "blob": Blob, "tag": Tag}

// An Object is one that was found.
type Object struct {
	Kind Kind
	Data []byte
}

// A Finder looks for objects. It is used once.
type Finder struct {
	// Open opens the file of an object. One that is not there is fs.ErrNotExist.
	Open func(id string) (io.ReadCloser, error)
	// Has says that an object need not be found: it is there already, with all that it leads to.
	Has func(id string) bool
	// Size is that of an object's name in bytes.
	Size int

	inflate io.ReadCloser
	read    map[string]*Object // nil for what is not there
	found   map[string]bool
	objects []*Object
	bytes   int
	packed  int64 // bytes of files that were read
}

// Find returns the objects that some commits lead to and that are to be found.
func (f *Finder) Find(tips []string) ([]*Object, error) {
	f.read, f.found = map[string]*Object{}, map[string]bool{}
	// Not by recursion: a history is as deep as it is long.
	for todo := slices.Clone(tips); len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		next, err := f.one(id)
		if err != nil {
			return nil, err
		}
		todo = append(todo, next...)
	}
	return f.objects, nil
}

// take adds an object to those that are found, if it is there and was not found before.
func (f *Finder) take(id string) (*Object, error) {
	if f.found[id] || f.Has(id) {
		return nil, nil
	}
	f.found[id] = true
	o, err := f.get(id)
	if o == nil || err != nil {
		return nil, err
	}
	if f.objects = append(f.objects, o); len(f.objects) > MaxObjects {
		return nil, ErrUnusual
	}
	return o, nil
}

// one finds a commit and its files. It returns the commits before it.
func (f *Finder) one(id string) (before []string, err error) {
	o, err := f.take(id)
	if o == nil || err != nil {
		return nil, err
	}
	if o.Kind != Commit {
		return nil, ErrUnusual
	}
	tree, before, err := f.commit(o)
	if err != nil {
		return nil, err
	}
	// What is as it was in the commit before need not be looked at.
	was := ""
	if len(before) > 0 {
		if o, err := f.get(before[0]); err != nil {
			return nil, err
		} else if o != nil && o.Kind == Commit {
			if was, _, err = f.commit(o); err != nil {
				return nil, err
			}
		}
	}
	return before, f.tree(tree, was, 0)
}

// maxDeep is how deep directories may be.
const maxDeep = 100

// tree finds a directory and what is in it, but for what is in another one as well.
func (f *Finder) tree(id, was string, deep int) error {
	if id == was {
		return nil
	}
	o, err := f.take(id)
	if o == nil || err != nil {
		return err
	}
	if o.Kind != Tree || deep > maxDeep {
		return ErrUnusual
	}
	entries, err := ParseTree(o.Data, f.Size)
	if err != nil {
		return err
	}
	old := map[string]Entry{}
	if was != "" {
		if o, err := f.get(was); err != nil {
			return err
		} else if o != nil && o.Kind == Tree {
			list, err := ParseTree(o.Data, f.Size)
			if err != nil {
				return err
			}
			for _, e := range list {
				old[e.Name] = e
			}
		}
	}
	for _, e := range entries {
		before := old[e.Name]
		switch {
		case e.Mode == Gitlink || e.ID == before.ID:
		case e.Mode == Directory:
			if before.Mode != Directory {
				before.ID = ""
			}
			err = f.tree(e.ID, before.ID, deep+1)
		default:
			_, err = f.take(e.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commit says which tree a commit has, and which commits before it.
func (f *Finder) commit(o *Object) (tree string, before []string, err error) {
	for line := range strings.Lines(string(o.Data)) {
		word, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case word == "tree" && tree == "" && f.isID(id):
			tree = id
		case word == "parent" && tree != "" && f.isID(id) && len(before) < MaxObjects:
			before = append(before, id)
		case word == "author" && tree != "":
			return tree, before, nil
		default:
			return "", nil, ErrUnusual
		}
	}
	return "", nil, ErrUnusual
}

func (f *Finder) isID(s string) bool {
	return len(s) == 2*f.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// get reads an object, or returns nil if it is not there.
func (f *Finder) get(id string) (*Object, error) {
	if o, ok := f.read[id]; ok {
		return o, nil
	}
	if len(f.read) >= maxLook {
		return nil, ErrUnusual
	}
	o, err := f.file(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		f.read[id] = o
	}
	return o, err
}

// file reads an object's file: what it is, how long it is, a zero byte, and its content,
// all of it compressed.
func (f *Finder) file(id string) (*Object, error) {
	file, err := f.Open(id)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// Of all files together: what is nothing can be compressed to any size.
	rest := &io.LimitedReader{R: file, N: maxPacked - f.packed}
	defer func(n int64) { f.packed += n - rest.N }(rest.N)
	in := bufio.NewReader(rest)
	if f.inflate == nil {
		f.inflate, err = zlib.NewReader(in)
	} else {
		err = f.inflate.(zlib.Resetter).Reset(in, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusual, err)
	}
	const longest = 32
	data, err := io.ReadAll(io.LimitReader(f.inflate, int64(MaxBytes-f.bytes+longest)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusual, err)
	}
	head, content, ok := bytes.Cut(data, []byte{0})
	if !ok || len(head) > longest {
		return nil, ErrUnusual
	}
	word, size, _ := strings.Cut(string(head), " ")
	if n, err := strconv.Atoi(size); err != nil || n != len(content) || kinds[word] == 0 {
		return nil, ErrUnusual
	}
	if f.bytes += len(content); f.bytes > MaxBytes {
		return nil, ErrUnusual
	}
	return &Object{kinds[word], content}, nil
}
