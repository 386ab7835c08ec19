package git

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// A few small trees, each of which names the next one many times, are more files than any
// disk has. Git does not mind when they come over, for every object is one. But who reads such
// a commit into an index, or asks for its status, waits for ever; so no branch outside is moved
// to one. How many files there are is found out without walking to them: of each tree it is
// remembered, and it need only be looked at where something is not as in the commit before.

// Bounds of what a commit may bring that the one before has not. Only tests have others.
var (
	maxPaths     int64 = 2_000_000
	maxPathBytes int64 = 512 << 20 // of all their names together: that much is in an index
)

// Bounds of how it is found out.
const (
	maxWeighed = 512 << 20 // bytes of trees, and perObject besides
	perObject  = 1 << 10   // what each counts besides: a few trees can lead to millions that are empty
	maxFolders = 2048      // one in the other; git itself has no more
)

// errHeavy is about a commit with too many files.
var errHeavy = errors.New("it has too many files")

// A weight is how much there is below a directory.
type weight struct {
	paths  int64 // files and directories
	bytes  int64 // of their names
	height int   // of directories one in the other
}

// add puts a directory or a file, for which there is no weight, into another.
func (w *weight) add(name string, below weight) error {
	w.paths += 1 + below.paths
	w.bytes += below.bytes + (1+below.paths)*int64(len(name)+1)
	w.height = max(w.height, 1+below.height)
	if w.paths > maxPaths || w.bytes > maxPathBytes || w.height > maxFolders {
		return errHeavy
	}
	return nil
}

// A weigher weighs what a commit has and another has not. It is used for one pair of them.
type weigher struct {
	get  func(id string, limit int64) (text []byte, size int64, err error) // see Blobs
	size int                                                               // of an object's name in bytes
	read int64

	known map[[2]string]weight // trees, after others
}

// commits weighs a commit after another. There may be none before.
func (w *weigher) commits(was, is string) (weight, error) {
	w.known = map[[2]string]weight{}
	before, err := w.root(was)
	if err != nil {
		return weight{}, err
	}
	after, err := w.root(is)
	if err != nil {
		return weight{}, err
	}
	return w.tree(before, after, 0)
}

// root is the tree of a commit, or "".
func (w *weigher) root(id string) (string, error) {
	text, err := w.object(id)
	line, _, _ := strings.Cut(string(text), "\n")
	tree, _ := strings.CutPrefix(line, "tree ")
	return tree, err
}

// object reads one. What is not there, in a partial clone, is nothing.
func (w *weigher) object(id string) ([]byte, error) {
	if id == "" {
		return nil, nil
	}
	text, size, err := w.get(id, maxWeighed-w.read)
	if errors.Is(err, errNoObject) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if w.read += size + perObject; w.read > maxWeighed || int64(len(text)) != size {
		return nil, errHeavy
	}
	return text, nil
}

// tree weighs what is in a directory and not in another, which may not be there.
func (w *weigher) tree(was, is string, deep int) (sum weight, err error) {
	if was == is {
		return weight{}, nil
	}
	if known, ok := w.known[[2]string{was, is}]; ok {
		return known, nil
	}
	if deep > maxFolders {
		return weight{}, errHeavy
	}
	before, err := w.entries(was)
	if err != nil {
		return weight{}, err
	}
	after, err := w.entries(is)
	if err != nil {
		return weight{}, err
	}
	old := make(map[string]entry, len(before))
	for _, e := range before {
		old[e.Name] = e
	}
	for _, e := range after {
		was := old[e.Name]
		if was == e {
			continue
		}
		var below weight
		if e.Mode == directory {
			if was.Mode != directory {
				was.ID = ""
			}
			if below, err = w.tree(was.ID, e.ID, deep+1); err != nil {
				return weight{}, err
			}
		}
		if err := sum.add(e.Name, below); err != nil {
			return weight{}, err
		}
	}
	w.known[[2]string{was, is}] = sum
	return sum, nil
}

func (w *weigher) entries(id string) ([]entry, error) {
	text, err := w.object(id)
	if err != nil {
		return nil, err
	}
	return parseEntries(text, w.size)
}

// maxHeavy bounds how many commits that are too large are remembered.
const maxHeavy = 1000

// heavy says whether a branch inside is at a commit with too many files to be brought over.
func (s *session) heavy(ctx context.Context, inside, outside string) (bool, error) {
	if s.tooHeavy[inside] {
		return true, nil
	}
	was := cmp.Or(outside, s.refs[s.branchRef()].id, s.Base)
	w := weigher{size: s.idSize()}
	blobs, err := s.History().Blobs(ctx)
	if err != nil {
		return false, err
	}
	defer blobs.Close()
	w.get = blobs.Read
	_, err = w.commits(was, inside)
	if !errors.Is(err, errHeavy) {
		return false, err
	}
	if len(s.tooHeavy) >= maxHeavy || s.tooHeavy == nil {
		s.tooHeavy = map[string]bool{}
	}
	s.tooHeavy[inside] = true
	return true, nil
}

// errTree is about an object that is no directory.
var errTree = errors.New("git has a tree that is not one")

// directory is the mode of an entry that is one.
const directory = 0o040000

// An entry is one of a directory.
type entry struct {
	Mode uint32
	Name string
	ID   string
}

// parseEntries reads a directory as git keeps it: of each entry the mode as an octal number, a
// space, the name, a zero byte, and the name of the object in so many bytes.
func parseEntries(data []byte, size int) (all []entry, err error) {
	for len(data) > 0 {
		mode, rest, ok := bytes.Cut(data, []byte{' '})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(name) == 0 || len(rest) < size || bytes.IndexByte(name, '/') >= 0 {
			return nil, errTree
		}
		m, err := strconv.ParseUint(string(mode), 8, 20)
		if err != nil {
			return nil, errTree
		}
		all = append(all, entry{uint32(m), string(name), hex.EncodeToString(rest[:size])})
		data = rest[size:]
	}
	return all, nil
}
