package uploadpack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	one = "1111111111111111111111111111111111111111"
	two = "2222222222222222222222222222222222222222"
)

// lines are what a server says; "" is the end of a list.
func lines(all ...string) string {
	var b strings.Builder
	for _, l := range all {
		if l == "" {
			b.WriteString("0000")
			continue
		}
		fmt.Fprintf(&b, "%04x%s", len(l)+4, l)
	}
	return b.String()
}

var hello = lines("version 2\n", "agent=git/2.39\n", "ls-refs=unborn\n", "fetch=shallow\n", "object-format=sha1\n", "")

// talk does all that a fetch does.
func talk(said string) (refs []Ref, pack string, err error) {
	c, err := Open(strings.NewReader(said), io.Discard, "sha1")
	if err != nil {
		return nil, "", err
	}
	if refs, err = c.Refs("refs/heads/"); err != nil {
		return refs, "", err
	}
	in, err := c.Fetch([]string{one}, []string{two})
	if err != nil {
		return refs, "", err
	}
	data, err := io.ReadAll(io.LimitReader(in, 1<<20))
	return refs, string(data), err
}

func TestTalk(t *testing.T) {
	refs, pack, err := talk(hello + lines(one+" refs/heads/a\n", two+" refs/heads/ü/-b symref-target:refs/heads/a\n", two+" refs/heads/x.lock\n", "") +
		lines("packfile\n", "\x02counting\n", "\x01PA", "\x01", "\x01CK", ""))
	if want := []Ref{{"refs/heads/a", one}, {"refs/heads/ü/-b", two}}; err != nil || fmt.Sprint(refs) != fmt.Sprint(want) || pack != "PACK" {
		t.Errorf("got %v, %q, %v; want %v", refs, pack, err, want)
	}
}

func TestRefuses(t *testing.T) {
	refs := lines(one+" refs/heads/a\n", "")
	many := make([]string, MaxRefs+1)
	for i := range many {
		many[i] = fmt.Sprintf("%s refs/heads/%d\n", one, i)
	}
	long := make([]string, maxNames/60000+1)
	for i := range long {
		long[i] = fmt.Sprintf("%s refs/heads/%d%s\n", one, i, strings.Repeat("n", 60000))
	}
	for name, c := range map[string]struct {
		said string
		want error // nil for any
	}{
		"nothing":                  {"", io.ErrUnexpectedEOF},
		"another version":          {lines("version 1\n", ""), ErrOther},
		"an old one":               {lines(one + " HEAD\x00 side-band\n"), ErrOther},
		"a length of three":        {"0003", ErrAnswer},
		"no length":                {"zzzz", ErrAnswer},
		"a huge line":              {"ffff", ErrAnswer},
		"no end of what it can do": {lines(append([]string{"version 2\n"}, strings.Split(strings.Repeat("x,", maxWords+1), ",")...)...), ErrAnswer},
		"other names of objects":   {lines("version 2\n", "object-format=sha256\n", ""), nil},
		"its own error":            {lines("version 2\n", "ERR no\n"), nil},
		"cut off":                  {hello + refs[:20], io.ErrUnexpectedEOF},
		"a name that is none":      {hello + lines("refs/heads/a\n", ""), ErrAnswer},
		"an object that is none":   {hello + lines(strings.Repeat("0", 40)+" refs/heads/a\n", ""), ErrAnswer},
		"upper case":               {hello + lines(strings.Repeat("A", 40)+" refs/heads/a\n", ""), ErrAnswer},
		"other refs":               {hello + lines(one+" refs/tags/a\n", ""), ErrAnswer},
		"one twice":                {hello + lines(one+" refs/heads/a\n", two+" refs/heads/a\n", ""), ErrAnswer},
		"too many":                 {hello + lines(append(many, "")...), nil},
		"names without end":        {hello + lines(append(long, "")...) + lines("packfile\n", "\x01PACK", ""), nil},
		"a shallow repository":     {hello + refs + lines("shallow-info\n", "shallow "+one+"\n"), ErrOther},
		"a pack from elsewhere":    {hello + refs + lines("packfile-uris\n", "x\n"), ErrOther},
		"a word of its own":        {hello + refs + lines("evil\n"), ErrAnswer},
		"another channel":          {hello + refs + lines("packfile\n", "\x04PACK"), ErrAnswer},
		"an empty line in a pack":  {hello + refs + lines("packfile\n") + "0004", ErrAnswer},
		"its own error in a pack":  {hello + refs + lines("packfile\n", "\x03no"), nil},
		"half a pack":              {hello + refs + lines("packfile\n", "\x01PACK"), io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := talk(c.said); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestGit talks to the real one.
func TestGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_PROTOCOL=version=2",
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
			git := func(in io.Reader, args ...string) string {
				t.Helper()
				c := exec.Command("git", append([]string{"-C", dir}, args...)...)
				c.Env, c.Stdin = env, in
				var errs strings.Builder
				c.Stderr = &errs
				out, err := c.Output()
				if err != nil {
					t.Fatalf("git %q: %v\n%s", args, err, errs.String())
				}
				return strings.TrimSpace(string(out))
			}
			git(nil, "init", "-q", "--object-format="+format)
			git(nil, "commit", "-q", "--allow-empty", "-m", "first")
			first := git(nil, "rev-parse", "HEAD")
			git(nil, "checkout", "-q", "-b", "more")
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			git(nil, "add", "file")
			git(nil, "commit", "-q", "-m", "second")
			second := git(nil, "rev-parse", "HEAD")

			server := exec.Command("git", "upload-pack", "--strict", filepath.Join(dir, ".git"))
			server.Env = env
			out, err1 := server.StdinPipe()
			in, err2 := server.StdoutPipe()
			if err := errors.Join(err1, err2, server.Start()); err != nil {
				t.Fatal(err)
			}
			c, err := Open(in, out, format)
			if err != nil {
				t.Fatal(err)
			}
			refs, err := c.Refs("refs/heads/")
			if err != nil || len(refs) != 2 {
				t.Fatalf("got %v, %v", refs, err)
			}
			pack, err := c.Fetch([]string{second}, []string{first})
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(pack)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(out.Close(), server.Wait()); err != nil {
				t.Error(err)
			}
			if n := data[11]; !bytes.HasPrefix(data, []byte("PACK")) || n != 3 { // a commit, a tree and a file
				t.Errorf("a pack of %d objects: %.20q", n, data)
			}
			git(bytes.NewReader(data), "index-pack", "--stdin", "--strict")
		})
	}
}

// FuzzTalk: whatever a server says, it is believed or not, in bounded space.
func FuzzTalk(f *testing.F) {
	f.Add(hello + lines(one+" refs/heads/a\n", "") + lines("packfile\n", "\x01PACK", ""))
	f.Add(hello + lines(one+" refs/heads/a b\n", "") + lines("shallow-info\n"))
	f.Add("ffff")
	f.Fuzz(func(t *testing.T, said string) {
		refs, pack, _ := talk(said)
		for _, r := range refs {
			if !Valid(r.Name) || !strings.HasPrefix(r.Name, "refs/heads/") || len(r.ID) != 40 {
				t.Errorf("believed %q", r)
			}
		}
		if len(pack) > len(said) {
			t.Errorf("a pack of %d bytes from %d", len(pack), len(said))
		}
	})
}
