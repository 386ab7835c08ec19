package loose

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"io/fs"
	"math/rand"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// store is a directory of objects in memory.
type store map[string][]byte

// put writes an object as git does, and returns its name.
func (s store) put(kind string, data []byte) string {
	text := append(fmt.Appendf(nil, "%s %d\x00", kind, len(data)), data...)
	sum := sha1.Sum(text)
	id := hex.EncodeToString(sum[:])
	s[id] = deflate(text)
	return id
}

// deflater is one for all: to make one takes a megabyte, and longer than all that is to be
// tested with what it writes.
var deflater = zlib.NewWriter(nil)

func deflate(text []byte) []byte {
	var b bytes.Buffer
	deflater.Reset(&b)
	deflater.Write(text)
	deflater.Close()
	return b.Bytes()
}

func (s store) tree(entries ...string) string {
	var b []byte
	for i := 0; i+2 < len(entries); i += 3 {
		raw, _ := hex.DecodeString(entries[i+2])
		b = append(b, entries[i]+" "+entries[i+1]+"\x00"...)
		b = append(b, raw...)
	}
	return s.put("tree", b)
}

func (s store) commit(tree string, before ...string) string {
	text := "tree " + tree + "\n"
	for _, p := range before {
		text += "parent " + p + "\n"
	}
	return s.put("commit", []byte(text+"author A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nx\n"))
}

func (s store) finder(has ...string) *Finder {
	return &Finder{Size: 20, Open: s.open, Has: func(id string) bool {
		for _, h := range has {
			if h == id {
				return true
			}
		}
		return false
	}}
}

func (s store) open(id string) (io.ReadCloser, error) {
	b, ok := s[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func TestFind(t *testing.T) {
	s := store{}
	same, old, fresh := s.put("blob", []byte("same")), s.put("blob", []byte("old")), s.put("blob", []byte("fresh"))
	dir := s.tree("100644", "same", same)
	first := s.commit(s.tree("100644", "file", old, "40000", "dir", dir))
	module := strings.Repeat("1", 40)
	second := s.commit(s.tree("100644", "file", fresh, "40000", "dir", dir, "160000", "module", module), first)
	third := s.commit(s.tree("100644", "file", fresh, "40000", "dir", s.tree("100644", "new", fresh, "100644", "same", same)), second)
	for _, c := range []struct {
		name string
		tips []string
		has  []string
		want int
	}{
		{"all there", []string{third}, []string{third}, 0},
		{"elsewhere", []string{strings.Repeat("2", 40)}, nil, 0},
		{"the last", []string{third}, []string{second}, 4},                                                                           // its two trees, and the file, which could be older
		{"two", []string{third}, []string{first}, 6},                                                                                 // what the first has is not among them
		{"twice", []string{third, second}, []string{first}, 6},                                                                       // and none is there twice
		{"all", []string{third}, nil, 6 + 5},                                                                                         // but for the module
		{"what is there", []string{third}, []string{second, fresh}, 3},                                                               //
		{"the root is as it was", []string{s.commit(s.tree("100644", "file", old, "40000", "dir", dir), first)}, []string{first}, 1}, // the commit
	} {
		tips := slices.Clone(c.tips)
		got, err := s.finder(c.has...).Find(tips)
		if !slices.Equal(tips, c.tips) { // of which it is asked afterwards whether all is there
			t.Errorf("%s: the tips are others now", c.name)
		}
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %d objects, %v; want %d", c.name, len(got), err, c.want)
		}
	}
}

func TestUnusual(t *testing.T) {
	s := store{}
	blob := s.put("blob", []byte("x"))
	deep := s.tree("100644", "file", blob)
	for range maxDeep + 2 {
		deep = s.tree("40000", "d", deep)
	}
	long := s.commit(s.tree("100644", "file", blob))
	for range MaxObjects + 1 {
		long = s.commit(s.tree("100644", "file", blob), long)
	}
	broken := s.put("commit", []byte("x"))
	s[broken] = s[broken][:len(s[broken])-3]
	lies := s.put("blob", []byte("lies"))
	s[lies] = deflate([]byte("commit 3\x00lies"))
	padded := ""
	for n := range 9 { // each a few bytes in a megabyte of nothing
		id := s.put("blob", []byte{byte(n)})
		text := append([]byte("blob 1\x00"), byte(n))
		z := append([]byte{0x78, 0x01}, bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, maxPacked/8/5)...)
		z = append(append(z, 1, byte(len(text)), 0, ^byte(len(text)), 0xff), text...)
		s[id] = binary.BigEndian.AppendUint32(z, adler32.Checksum(text))
		if n == 7 {
			if got, err := s.finder().Find([]string{s.commit(s.tree("100644", "file", id))}); err != nil || len(got) != 3 {
				t.Errorf("one that is padded: %d objects, %v", len(got), err)
			}
		}
		padded = s.commit(s.tree("100644", "file", id), slices.DeleteFunc([]string{padded}, func(p string) bool { return p == "" })...)
	}
	large := s.put("blob", bytes.Repeat([]byte("x"), MaxBytes+1))
	for name, tip := range map[string]string{
		"a file": blob, "deep": s.commit(deep), "padded": padded, "long": long, "broken": broken, "lies": lies,
		"large":        s.commit(s.tree("100644", "file", large)),
		"no tree":      s.put("commit", []byte("author A\n")),
		"tree is none": s.commit(blob),
		"a bad tree":   s.commit(s.put("tree", []byte("100644 file"))),
		"empty":        s.put("commit", nil),
	} {
		if got, err := s.finder().Find([]string{tip}); !errors.Is(err, ErrUnusual) {
			t.Errorf("%s: %d objects, %v", name, len(got), err)
		}
	}
}

// Git takes the pack apart, and has what was put in.
func TestPack(t *testing.T) {
	for _, format := range []struct {
		name string
		size int
	}{{"sha1", 20}, {"sha256", 32}} {
		dir := t.TempDir()
		git := func(in []byte, args ...string) string {
			t.Helper()
			c := exec.Command("git", append([]string{"-C", dir}, args...)...)
			c.Stdin = bytes.NewReader(in)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("git %q: %v\n%s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		git(nil, "init", "-q", "--object-format="+format.name, ".")
		var all []*Object
		for _, size := range []int{0, 1, 15, 16, 2047, 2048, 0xffff, 0x10000, 300000} {
			data := make([]byte, size)
			rand.New(rand.NewSource(int64(size))).Read(data)
			all = append(all, &Object{Blob, data})
		}
		git(Pack(all, format.size), "unpack-objects", "-q", "--strict")
		for _, o := range all {
			id := git(o.Data, "hash-object", "--stdin")
			if got := git(nil, "cat-file", "-s", id); got != fmt.Sprint(len(o.Data)) {
				t.Errorf("%s: %d bytes are %s", format.name, len(o.Data), got)
			}
		}
	}
}

// Whatever a file of an object or a tree says, no more is read than may be, and nothing breaks.
func FuzzFind(f *testing.F) {
	f.Add([]byte("tree "+strings.Repeat("a", 40)+"\nparent "+strings.Repeat("b", 40)+"\nauthor x\n"), []byte("100644 a\x00"+strings.Repeat("c", 20)), true)
	f.Add([]byte(nil), []byte("40000 d\x00"+strings.Repeat("a", 20)), false)
	f.Add([]byte("x\x9c"), []byte("160000 m\x00"), false)
	f.Fuzz(func(t *testing.T, commit, tree []byte, packed bool) {
		s := store{}
		id := strings.Repeat("d", 40)
		if packed {
			s[id] = s[s.put("commit", commit)]
		} else {
			s[id] = commit
		}
		treeID := s.put("tree", tree)
		tips := []string{id, s.commit(treeID), s.commit(treeID, id)}
		all, err := s.finder().Find(tips)
		if err != nil {
			if !errors.Is(err, ErrUnusual) {
				t.Fatal(err)
			}
			return
		}
		n := 0
		for _, o := range all {
			n += len(o.Data)
		}
		if len(all) > MaxObjects || n > MaxBytes {
			t.Fatalf("%d objects of %d bytes", len(all), n)
		}
		Pack(all, 20)
	})
}
