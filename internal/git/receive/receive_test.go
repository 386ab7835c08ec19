package receive

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	zero = "0000000000000000000000000000000000000000"
	one  = "1111111111111111111111111111111111111111"
	two  = "2222222222222222222222222222222222222222"
)

const caps = "\x00 report-status side-band-64k object-format=sha1 agent=git/2.39"

func request(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		line(&b, l)
	}
	flush(&b)
	return b.String()
}

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader(request(zero+" "+one+" refs/heads/coffer/box"+caps, one+" "+zero+" refs/heads/ünï")+"PACK…"), "sha1")
	want := []Command{{"refs/heads/coffer/box", "", one}, {"refs/heads/ünï", one, ""}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got[0].Branch() != "coffer/box" {
		t.Errorf("the branch is %q", got[0].Branch())
	}
	if got, err := Read(strings.NewReader("0000"), "sha1"); err != nil || len(got) != 0 {
		t.Errorf("git asks whether it may: %v, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	many := []string{zero + " " + one + " refs/heads/x" + caps}
	for i := range MaxCommands {
		many = append(many, fmt.Sprintf("%s %s refs/heads/x%d", zero, one, i))
	}
	for name, text := range map[string]string{
		"nothing":             "",
		"no length":           "zzzz",
		"a length of three":   "0003",
		"a huge line":         "ffff",
		"cut off":             "0032" + zero,
		"no capabilities":     request(zero + " " + one + " refs/heads/x"),
		"no report wanted":    request(zero + " " + one + " refs/heads/x\x00 side-band-64k"),
		"later capabilities":  request(zero+" "+one+" refs/heads/x"+caps, zero+" "+one+" refs/heads/y"+caps),
		"the same ref twice":  request(zero+" "+one+" refs/heads/x"+caps, zero+" "+two+" refs/heads/x"),
		"nothing to nothing":  request(zero + " " + zero + " refs/heads/x" + caps),
		"upper case":          request(zero + " " + strings.Repeat("A", 40) + " refs/heads/x" + caps),
		"a signed push":       request("push-cert\x00 report-status side-band-64k", "certificate version 0.1"),
		"names of other size": request(zero + zero[:24] + " " + one + one[:24] + " refs/heads/x" + caps),
		"too many":            request(many...),
	} {
		if got, err := Read(strings.NewReader(text), "sha1"); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestValidRef(t *testing.T) {
	for _, name := range []string{"refs/heads/main", "refs/heads/coffer/box@a", "refs/heads/a-b/c.d", "refs/heads/日本", "refs/tags/v1", "refs/heads/#1,'x"} {
		if !ValidRef(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{
		"", "main", "refs/heads", "refs/heads/", "HEAD", "refs/heads/HEAD", "refs/heads/-x", "refs/heads/--delete", "refs/heads/a/-b", "refs/heads/a..b",
		"refs/heads/a b", "refs/heads/a\nb", "refs/heads/a\x00b", "refs/heads/a\x1b[2J", "refs/heads/a:b", "refs/heads/a*", "refs/heads/a?", "refs/heads/[a]",
		"refs/heads/a^", "refs/heads/a~1", "refs/heads/a\\b", "refs/heads/a@{1}", "refs/heads/@", "refs/heads//a", "refs/heads/a/", "refs/heads/.a", "refs/heads/a.lock",
		"refs/heads/a.lock/b", "refs/heads/a.", "refs/heads/\xff", "refs/heads/a\u202eb", "../refs/heads/a", "refs/../heads/a", "refs/heads/" + strings.Repeat("x", 250),
	} {
		if ValidRef(name) {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestAnswer(t *testing.T) {
	var b bytes.Buffer
	a := Answer{W: &b}
	a.Say("hello\nthere\x1b[2J")
	a.End([]Result{{"refs/heads/a", ""}, {"refs/heads/b", "not\nyours"}})
	want := "0015\x02hello there [2J\n" + "0049\x01000eunpack ok\n0014ok refs/heads/a\n001eng refs/heads/b not yours\n0000" + "0000"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

// FuzzRead feeds what a sandbox could send. Whatever is taken must be harmless on a
// command line.
func FuzzRead(f *testing.F) {
	f.Add([]byte(request(zero + " " + one + " refs/heads/coffer/box" + caps)))
	f.Add([]byte(request("shallow "+one, zero+" "+one+" refs/heads/x"+caps, one+" "+zero+" refs/heads/y") + "PACK"))
	f.Add([]byte("0000"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []string{"sha1", "sha256"} {
			commands, err := Read(bytes.NewReader(data), format)
			if err != nil {
				continue
			}
			for _, c := range commands {
				if !strings.HasPrefix(c.Ref, "refs/") || strings.ContainsAny(c.Ref, " :*?[\\^~\n\x00") || strings.HasPrefix(c.Branch(), "-") {
					t.Errorf("took %q", c.Ref)
				}
				for _, id := range []string{c.Old, c.New} {
					if id != "" && (len(id) != size(format) || strings.Trim(id, "0123456789abcdef") != "") {
						t.Errorf("took the object %q", id)
					}
				}
			}
		}
	})
}
