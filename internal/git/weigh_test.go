package git

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// shelf is objects in memory, whose names are numbers.
type shelf struct {
	objects map[string]string
	reads   int
}

func (s *shelf) put(text string) string {
	id := fmt.Sprintf("%040x", len(s.objects)+1)
	s.objects[id] = text
	return id
}

// raw is the name of an object in bytes.
func raw(id string) string {
	b, _ := hex.DecodeString(id)
	return string(b)
}

func (s *shelf) get(id string, limit int64) ([]byte, int64, error) {
	s.reads++
	text, ok := s.objects[id]
	if !ok {
		return nil, 0, errNoObject
	}
	if int64(len(text)) > limit {
		return nil, int64(len(text)), nil
	}
	return []byte(text), int64(len(text)), nil
}

func (s *shelf) commit(tree string) string { return s.put("tree " + tree + "\nauthor x\n") }

// tree has so many entries of one kind.
func (s *shelf) tree(n int, mode, name, of string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s %s%06d\x00%s", mode, name, i, raw(of))
	}
	return s.put(b.String())
}

func (s *shelf) weigh(was, is string) (weight, error) {
	return (&weigher{get: s.get, size: 20}).commits(was, is)
}

func TestWeigh(t *testing.T) {
	defer func(was int64) { maxPaths = was }(maxPaths)
	maxPaths = 20_000 // two million entries of one directory take half a gigabyte
	s := &shelf{objects: map[string]string{}}
	file := strings.Repeat("f", 40)
	nothing := s.commit(s.put(""))
	ten := s.tree(10, "100644", "f", file)
	hundred := s.tree(10, "40000", "d", ten)
	link := s.tree(10, "160000", "m", file)
	for name, c := range map[string]struct {
		was, is string
		want    int64 // -1 if it is too much
	}{
		"nothing":             {nothing, nothing, 0},
		"files":               {nothing, s.commit(ten), 10},
		"of nothing before":   {"", s.commit(ten), 10},
		"directories":         {nothing, s.commit(hundred), 110},
		"submodules":          {nothing, s.commit(link), 10},
		"as it was":           {s.commit(hundred), s.commit(hundred), 0},
		"one more":            {s.commit(s.tree(9, "40000", "d", ten)), s.commit(hundred), 11},
		"what is not there":   {nothing, s.commit(s.tree(3, "40000", "d", file)), 3},
		"a file was":          {s.commit(s.tree(10, "100644", "d", file)), s.commit(hundred), 110},
		"as many as may be":   {nothing, s.commit(s.tree(int(maxPaths/2000), "40000", "d", s.tree(1999, "100644", "f", file))), maxPaths},
		"one more than that":  {nothing, s.commit(s.tree(int(maxPaths/2000)+1, "40000", "d", s.tree(1999, "100644", "f", file))), -1},
		"one directory of it": {nothing, s.commit(s.tree(int(maxPaths)+1, "100644", "f", file)), -1},
	} {
		got, err := s.weigh(c.was, c.is)
		if heavy := errors.Is(err, errHeavy); heavy != (c.want < 0) || !heavy && (err != nil || got.paths != c.want) {
			t.Errorf("%s: %+v, %v; want %d", name, got, err, c.want)
		}
	}
}

// TestWeighBombs: what has more files than can be counted is found out about by reading a few
// trees.
func TestWeighBombs(t *testing.T) {
	s := &shelf{objects: map[string]string{}}
	file := strings.Repeat("f", 40)
	level := func(n, deep int, mode, name, of string) string {
		for range deep {
			of, mode = s.tree(n, mode, name, of), "40000"
		}
		return of
	}
	long := strings.Repeat("n", 60000)
	for name, tree := range map[string]string{
		"of files":            level(10, 12, "100644", "f", file),
		"of nothing at all":   level(10, 12, "40000", "d", s.put("")),
		"of long names":       level(10, 4, "100644", long, file),
		"of many directories": level(1, maxFolders+2, "40000", "d", s.put("")),
	} {
		s.reads = 0
		if got, err := s.weigh("", s.commit(tree)); !errors.Is(err, errHeavy) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if s.reads > maxFolders+10 {
			t.Errorf("%s: %d objects were read", name, s.reads)
		}
	}
	if got, err := s.weigh("", s.commit(level(1, maxFolders-2, "40000", "d", s.put("")))); err != nil {
		t.Errorf("directories: %+v, %v", got, err)
	}
	// Directories whose depth is known from elsewhere are no less deep.
	deep := level(1, maxFolders/2, "40000", "d", s.put(""))
	both := s.put("40000 a\x00" + raw(deep) + "40000 b\x00" + raw(level(1, maxFolders/2+10, "40000", "d", deep)))
	if got, err := s.weigh("", s.commit(both)); !errors.Is(err, errHeavy) {
		t.Errorf("directories that are known: %+v, %v", got, err)
	}
}

// Whatever trees name each other, there are as many files as one finds who walks to each.
func FuzzWeigh(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 2, 2, 3, 3}, []byte{1, 2})
	f.Add([]byte{255, 0, 9, 0x80, 0x81, 2}, []byte{0, 3})
	f.Fuzz(func(t *testing.T, links, tips []byte) {
		if len(links) > 64 || len(tips) < 2 {
			return
		}
		defer func(was int64) { maxPaths = was }(maxPaths)
		maxPaths = 5000
		s := &shelf{objects: map[string]string{}}
		trees := []string{s.put("")}
		for ; len(links) >= 4; links = links[4:] {
			text := ""
			for i, b := range links[:4] {
				if b&0x80 != 0 { // a file
					text += fmt.Sprintf("100644 %d\x00%s", i, binary.BigEndian.AppendUint64(make([]byte, 12), uint64(b)))
				} else {
					text += fmt.Sprintf("40000 %d\x00%s", i, raw(trees[int(b)%len(trees)]))
				}
			}
			trees = append(trees, s.put(text))
		}
		var walk func(was, is string) int64
		walk = func(was, is string) (n int64) {
			if was == is {
				return 0
			}
			before, _ := parseEntries([]byte(s.objects[was]), 20)
			after, _ := parseEntries([]byte(s.objects[is]), 20)
			for _, e := range after {
				old := entry{}
				for _, b := range before {
					if b.Name == e.Name {
						old = b
					}
				}
				if old == e {
					continue
				}
				if n++; n > maxPaths {
					break
				}
				if old.Mode != directory {
					old.ID = ""
				}
				if e.Mode == directory {
					n += walk(old.ID, e.ID)
				}
				if n > maxPaths {
					break
				}
			}
			return n
		}
		was, is := trees[int(tips[0])%len(trees)], trees[int(tips[1])%len(trees)]
		want := walk(was, is)
		got, err := s.weigh(s.commit(was), s.commit(is))
		if heavy := errors.Is(err, errHeavy); heavy != (want > maxPaths) || !heavy && (err != nil || got.paths != want) {
			t.Fatalf("%+v, %v; want %d", got, err, want)
		}
	})
}
