package gitbridge

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packOf has git make a pack of a few versions of a file, as deltas of one another.
func packOf(t testing.TB, size int) (pack []byte, total int64) {
	t.Helper()
	dir := t.TempDir()
	git := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	git("", "init", "-q")
	var ids strings.Builder
	text := strings.Repeat("a line of the file\n", size/19)
	for _, more := range []string{"", "one\n", "one\ntwo\n"} {
		ids.WriteString(git(text+more, "hash-object", "-w", "--stdin"))
		total += int64(len(text) + len(more))
	}
	name := strings.TrimSpace(git(ids.String(), "pack-objects", "-q", "--delta-base-offset", filepath.Join(dir, "p")))
	if shown := git("", "verify-pack", "-v", filepath.Join(dir, "p-"+name+".idx")); !strings.Contains(shown, "chain length") {
		t.Fatalf("there is no delta in it:\n%s", shown)
	}
	pack, err := os.ReadFile(filepath.Join(dir, "p-"+name+".pack"))
	if err != nil {
		t.Fatal(err)
	}
	return pack, total
}

// What a pack says about its size is what git unpacks, and what is too much is not read.
func TestUnpackedSize(t *testing.T) {
	pack, total := packOf(t, 1<<20)
	for _, c := range []struct {
		name    string
		pack    []byte
		objects int64
		bytes   int64
		err     error
	}{
		{"all", pack, 3, total, nil},
		{"too many", pack, 2, total, errMuch},
		{"too large", pack, 3, total - 1, errMuch},
		{"cut", pack[:len(pack)/2], 3, total, errPack},
		{"empty", nil, 3, total, errPack},
		{"something else", []byte("PICTURE OF A CAT"), 3, total, errPack},
	} {
		got, err := unpackedSize(bytes.NewReader(c.pack), 20, c.objects, c.bytes)
		if !errors.Is(err, c.err) || c.err == nil && got != total {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, err, total, c.err)
		}
	}
}

func FuzzUnpackedSize(f *testing.F) {
	pack, _ := packOf(f, 4<<10)
	f.Add(pack)
	f.Add(pack[:len(pack)/2])
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, pack []byte) {
		const limit = 1 << 16
		if n, err := unpackedSize(bytes.NewReader(pack), 20, 10, limit); err == nil && (n < 0 || n > limit) {
			t.Errorf("%d bytes", n)
		}
	})
}
