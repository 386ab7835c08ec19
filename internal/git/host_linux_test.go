package git

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Of a few bytes that stand for gigabytes, git on the host does not make gigabytes.
func TestMemoryIsBounded(t *testing.T) {
	was := mostMemory
	mostMemory = 256 << 20
	defer func() { mostMemory = was }()
	dir := t.TempDir()
	// Each thread has a stack, and there may be as many as processors.
	git := host{dir: dir, where: []string{"--git-dir=" + filepath.Join(dir, "r")}, config: []string{"pack.threads=1"}}
	do := func(stdin string, args ...string) string {
		t.Helper()
		out, err := git.run(context.Background(), stdin, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	isBounded := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "out of memory") {
			t.Errorf("got %v, want git to run out of memory", err)
		}
	}
	do("", "init", "-q", "--bare", filepath.Join(dir, "r"))

	// A tree of ten trees of ten trees.
	git.index = filepath.Join(dir, "index")
	kind, id := "100644 blob", do("x", "hash-object", "-w", "--stdin")
	for level := range 9 {
		var tree strings.Builder
		for i := range 10 {
			fmt.Fprintf(&tree, "%s %s\t%s%d\n", kind, id, strings.Repeat("n", 3000), i)
		}
		kind, id = "040000 tree", do(tree.String(), "mktree")
		if level == 1 {
			do("", "read-tree", id) // which is no more than it looks
		}
	}
	_, err := git.run(context.Background(), "", "read-tree", id)
	isBounded(err)

	// A file that is a thousand times another one.
	for times, check := range map[int]func(error){10: func(err error) {
		if err != nil {
			t.Error(err)
		}
	}, 1000: isBounded} {
		_, err := git.read(context.Background(), bytes.NewReader(bombPack(times)), "index-pack", "--stdin", "--fix-thin", "--strict")
		check(err)
	}
}

// bombPack is a pack with a file of a megabyte, and one that is so many times that.
func bombPack(times int) []byte {
	base := make([]byte, 1<<20)
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(base))), uint64(len(base)*times))
	delta = append(delta, bytes.Repeat([]byte{0x80 | 0x40, 0x10}, times)...) // all of it
	var b bytes.Buffer
	object := func(kind byte, size int, ref []byte, data []byte) {
		b.WriteByte(kind<<4 | byte(size&15) | 128)
		b.Write(binary.AppendUvarint(nil, uint64(size>>4)))
		b.Write(ref)
		z := zlib.NewWriter(&b)
		z.Write(data)
		z.Close()
	}
	b.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x02")
	object(3, len(base), nil, base)
	name := sha1.Sum(append([]byte(fmt.Sprintf("blob %d\x00", len(base))), base...))
	object(7 /* a delta of the object that is named */, len(delta), name[:], delta)
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}
