package index

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/gitindex"
)

// repository is one with two commits, was and is.
type repository struct {
	t    *testing.T
	dir  string
	size int
}

func (r *repository) sh(script string) string {
	r.t.Helper()
	c := exec.Command("sh", "-ec", script)
	c.Dir = r.dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func (r *repository) read() []byte {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, ".git/index"))
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

func (r *repository) parse() *Index {
	r.t.Helper()
	x, err := Parse(r.read(), r.size)
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

func (r *repository) write(x *Index) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, ".git/index"), x.Bytes(), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// changes are those between the two commits, as git sees them.
func (r *repository) changes() (all []Change) {
	f := strings.Split(r.sh(`git diff-tree -r -z --no-renames was is`), "\x00")
	for ; len(f) >= 2; f = f[2:] {
		w := strings.Fields(strings.TrimPrefix(f[0], ":"))
		all = append(all, Change{f[1], item(w[0], w[2]), item(w[1], w[3])})
	}
	return all
}

func item(mode, id string) (i Item) {
	for _, c := range mode {
		i.Mode = i.Mode<<3 | uint32(c-'0')
	}
	if raw, _ := hex.DecodeString(id); i.Mode != 0 {
		i.ID = string(raw)
	}
	return i
}

const base = `git init -q --object-format=$FORMAT .
	mkdir -p a/b c; echo 1 >a/b/one; echo 2 >a/two; echo 3 >c/three; echo 4 >four; ln -s four link; echo x >run; chmod +x run
	for i in 1 2 3 4 5 6 7 8 9; do echo $i >a/b/file-$i; done
	git add .; git commit -qm was; git tag was
`

var cases = []struct {
	name, change, stage string
	odd                 bool
}{
	{name: "nothing", change: "git commit -q --allow-empty -m is"},
	{name: "changed", change: "echo n >>a/b/one; echo n >>four; git commit -qam is"},
	{name: "new", change: "mkdir -p a/n/m; echo n >a/n/m/x; echo n >0; echo n >zz; git add .; git commit -qm is"},
	{name: "gone", change: "git rm -qr a/b four; git commit -qm is"},
	{name: "modes", change: "chmod +x four; chmod -x run; rm link; echo file >link; git add .; git commit -qm is"},
	{name: "a file that was a directory", change: "git rm -qr c; echo x >c; git add c; git commit -qm is"},
	{name: "a directory that was a file", change: "git rm -q four; mkdir four; echo x >four/x; git add four; git commit -qm is"},
	{name: "staged besides", change: "echo n >>four; git commit -qam is", stage: "echo s >>a/two; echo s >new; git add a/two new; git rm -q --cached c/three"},
	{name: "staged already", change: "echo n >>four; git rm -q c/three; git commit -qam is", stage: "git checkout -q is -- four; git rm -q --cached c/three"},
	{name: "marked", change: "echo n >>four; git commit -qam is", stage: "git update-index --skip-worktree four run; git update-index --assume-unchanged link"},
	{name: "staged otherwise", change: "echo n >>four; git commit -qam is", stage: "echo s >>four; git add four", odd: true},
	{name: "gone from the index", change: "echo n >>four; git commit -qam is", stage: "git rm -q --cached four", odd: true},
	{name: "in the way", change: "mkdir d; echo n >d/x; git add .; git commit -qm is", stage: "echo s >d; git add d", odd: true},
	{name: "a submodule", change: "git update-index --add --cacheinfo 160000,$(git rev-parse was),sub; git commit -qm is", odd: true},
	{name: "a submodule that stays", change: "echo n >>four; git commit -qam is", stage: "git update-index --add --cacheinfo 160000,$(git rev-parse was),sub", odd: true},
	{name: "to be added", change: "echo n >>four; git commit -qam is", stage: "echo s >s; git add -N s", odd: true},
	{name: "split", change: "echo n >>four; git commit -qam is", stage: "git update-index --split-index", odd: true},
}

// TestApply compares with what git makes of it.
func TestApply(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "4"} {
			for _, c := range cases {
				t.Run(format+"/"+version+"/"+c.name, func(t *testing.T) {
					t.Setenv("FORMAT", format)
					r := &repository{t, t.TempDir(), len(checksum(nil, map[string]int{"sha1": 20, "sha256": 32}[format]))}
					r.sh(base + c.change + "\ngit tag is; git reset -q --hard was; git update-index --index-version " + version + "\n" + c.stage + "\n true")
					x, err := Parse(r.read(), r.size)
					if err == nil {
						err = x.Apply(r.changes())
					}
					if c.odd {
						if !errors.Is(err, ErrUnusual) {
							t.Fatalf("got %v", err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					r.sh(`cp .git/index keep`)
					r.write(x)
					got := r.sh(`git ls-files --stage -v; git ls-files --stage; git fsck --strict; git write-tree`)
					r.sh(`cp keep .git/index; rm keep; git read-tree -m -i was is`)
					if want := r.sh(`git ls-files --stage -v; git ls-files --stage; git fsck --strict; git write-tree`); got != want {
						t.Errorf("got\n%s\nwant\n%s", got, want)
					}
				})
			}
		}
	}
}

// What git has written is written as git has.
func TestBytes(t *testing.T) {
	for _, version := range []string{"2", "4"} {
		t.Setenv("FORMAT", "sha1")
		r := &repository{t, t.TempDir(), 20}
		r.sh(base + "git update-index --index-version " + version + "; git update-index --skip-worktree run; rm -f .git/index.lock; git -c index.threads=1 read-tree HEAD")
		if got, want := r.parse().Bytes(), r.read(); !bytes.Equal(got, want) {
			t.Errorf("version %s:\ngot\n%s\nwant\n%s", version, hex.Dump(got), hex.Dump(want))
		}
	}
}

// disk are files in memory.
type disk map[string]struct {
	Stat
	id string
}

func (d disk) Stat(name string) (Stat, bool) { f, ok := d[name]; return f.Stat, ok }
func (d disk) Name(name string) (string, Stat, error) {
	f := d[name]
	return f.id, f.Stat, nil
}

func TestRefresh(t *testing.T) {
	type file = struct {
		Stat
		id string
	}
	stat := func(mtime, inode uint32) Stat { return Stat{MtimeSec: mtime, Inode: inode, Mode: 0o100644, Size: 5} }
	x := &Index{version: 2, size: 20, Entries: []Entry{
		{Name: "clean", ID: "1", Stat: stat(10, 1)},
		{Name: "new", ID: "2", Stat: Stat{Mode: 0o100644}},
		{Name: "changed", ID: "3", Stat: stat(10, 3)},
		{Name: "gone", ID: "4", Stat: stat(10, 4)},
		{Name: "young", ID: "5", Stat: stat(100, 5)},
		{Name: "young and changed", ID: "6", Stat: stat(100, 6)},
		{Name: "another mode", ID: "7", Stat: stat(10, 7)},
		{Name: "assumed", ID: "8", Stat: stat(10, 8), Flags: gitindex.Assumed},
		{Name: "skipped", ID: "9", Stat: stat(10, 9), Flags: gitindex.Extended, More: gitindex.Skipped},
	}}
	run := stat(10, 7)
	run.Mode = 0o100755
	var others []string
	err := x.Refresh(100e9, disk{
		"clean": file{stat(10, 1), "not looked at"}, "new": file{stat(20, 2), "2"}, "changed": file{stat(20, 3), "other"},
		"young": file{stat(100, 5), "5"}, "young and changed": file{stat(100, 6), "other"}, "another mode": file{run, "7"},
		"assumed": file{stat(20, 8), "8"}, "skipped": file{stat(20, 9), "9"},
	}, func(name string) { others = append(others, name) })
	if got := strings.Join(others, ","); err != nil || got != "changed,young and changed,another mode" {
		t.Errorf("%s, %v", got, err)
	}
	for _, e := range x.Entries {
		want := stat(10, e.Inode)
		switch e.Name {
		case "new":
			want = stat(20, 2)
		case "young":
			want = stat(100, 5)
		case "young and changed":
			want = stat(100, 6)
			want.Size = 0
		}
		if e.Stat != want {
			t.Errorf("%s: got %v, want %v", e.Name, e.Stat, want)
		}
	}
}

func TestOdd(t *testing.T) {
	for name, want := range map[string]bool{
		"a/b": false, ".gitignore": false, ".gitattributes": false, "ä/ö": false, ".github/x": false, "git": false,
		".git": true, "a/.GIT/b": true, ".g\u200cit": true, ".git .": true, "git~1": true, "a\\b": true, ".git::$INDEX": true, "..": true, "a//b": true,
	} {
		if odd(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// Of directories that are followed by something else nothing is believed.
func TestParseTrees(t *testing.T) {
	one := (&node{count: 1, id: strings.Repeat("t", 20), below: []*node{{name: "a", count: -1}}}).append(nil)
	if n := parseTrees(one, 20); n == nil || len(n.below) != 1 {
		t.Errorf("got %+v", n)
	}
	for _, b := range [][]byte{append(bytes.Clone(one), 'x'), one[:len(one)-1], nil} {
		if n := parseTrees(b, 20); n != nil {
			t.Errorf("%q is %+v", b, n)
		}
	}
}

// What can be read can be written and read again, and changed without harm.
func FuzzParse(f *testing.F) {
	one := &Index{version: 2, size: 20, trees: &node{count: 1, id: strings.Repeat("t", 20), below: []*node{{name: "a", count: -1}}}, Entries: []Entry{
		{Name: "a/b", ID: strings.Repeat("i", 20), Stat: Stat{Mode: 0o100644}, Flags: 3},
		{Name: "a/bc", ID: strings.Repeat("i", 20), Stat: Stat{Mode: 0o120000}, Flags: 4},
	}}
	f.Add(one.Bytes(), "a/c")
	one.version = 4
	f.Add(one.Bytes(), "a")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		if len(b) >= 20 { // without a sum there is more to see
			b = append(bytes.Clone(b[:len(b)-20]), make([]byte, 20)...)
		}
		x, err := Parse(b, 20)
		if err != nil {
			return
		}
		y, err := Parse(x.Bytes(), 20)
		if err != nil || len(x.Entries) != len(y.Entries) {
			t.Fatalf("%v: %d entries of %d", err, len(y.Entries), len(x.Entries))
		}
		for i := range x.Entries {
			if x.Entries[i] != y.Entries[i] {
				t.Fatalf("%v is %v", x.Entries[i], y.Entries[i])
			}
		}
		if x.Apply([]Change{{Name: name, Is: Item{0o100644, strings.Repeat("n", 20)}}}) == nil {
			if _, err := Parse(x.Bytes(), 20); err != nil {
				t.Fatalf("after a change: %v", err)
			}
		}
	})
}
