package git

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

func pushRequest(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		pktLine(&b, l)
	}
	pktFlush(&b)
	return b.String()
}

func TestRead(t *testing.T) {
	got, err := ReadPush(strings.NewReader(pushRequest(zero+" "+one+" refs/heads/coffer/box"+caps, one+" "+zero+" refs/heads/ünï")+"PACK…"), "sha1")
	want := []PushCommand{{"refs/heads/coffer/box", "", one}, {"refs/heads/ünï", one, ""}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got[0].Branch() != "coffer/box" {
		t.Errorf("the branch is %q", got[0].Branch())
	}
	if got, err := ReadPush(strings.NewReader("0000"), "sha1"); err != nil || len(got) != 0 {
		t.Errorf("git asks whether it may: %v, %v", got, err)
	}
}

func TestReadPushRefuses(t *testing.T) {
	many := []string{zero + " " + one + " refs/heads/x" + caps}
	for i := range maxPushCommands {
		many = append(many, fmt.Sprintf("%s %s refs/heads/x%d", zero, one, i))
	}
	for name, text := range map[string]string{
		"nothing":             "",
		"no length":           "zzzz",
		"a length of three":   "0003",
		"a huge line":         "ffff",
		"cut off":             "0032" + zero,
		"no capabilities":     pushRequest(zero + " " + one + " refs/heads/x"),
		"no report wanted":    pushRequest(zero + " " + one + " refs/heads/x\x00 side-band-64k"),
		"later capabilities":  pushRequest(zero+" "+one+" refs/heads/x"+caps, zero+" "+one+" refs/heads/y"+caps),
		"the same ref twice":  pushRequest(zero+" "+one+" refs/heads/x"+caps, zero+" "+two+" refs/heads/x"),
		"nothing to nothing":  pushRequest(zero + " " + zero + " refs/heads/x" + caps),
		"upper case":          pushRequest(zero + " " + strings.Repeat("A", 40) + " refs/heads/x" + caps),
		"a signed push":       pushRequest("push-cert\x00 report-status side-band-64k", "certificate version 0.1"),
		"names of other size": pushRequest(zero + zero[:24] + " " + one + one[:24] + " refs/heads/x" + caps),
		"too many":            pushRequest(many...),
	} {
		if got, err := ReadPush(strings.NewReader(text), "sha1"); !errors.Is(err, ErrPushRequest) {
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

func TestPushAnswer(t *testing.T) {
	var b bytes.Buffer
	a := PushAnswer{W: &b}
	a.Say("hello\nthere\x1b[2J")
	a.End([]PushResult{{"refs/heads/a", ""}, {"refs/heads/b", "not\nyours"}})
	want := "0015\x02hello there [2J\n" + "0049\x01000eunpack ok\n0014ok refs/heads/a\n001eng refs/heads/b not yours\n0000" + "0000"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

// FuzzRead feeds what a sandbox could send. Whatever is taken must be harmless on a
// command line.
func FuzzReadPush(f *testing.F) {
	f.Add([]byte(pushRequest(zero + " " + one + " refs/heads/coffer/box" + caps)))
	f.Add([]byte(pushRequest("shallow "+one, zero+" "+one+" refs/heads/x"+caps, one+" "+zero+" refs/heads/y") + "PACK"))
	f.Add([]byte("0000"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []string{"sha1", "sha256"} {
			commands, err := ReadPush(bytes.NewReader(data), format)
			if err != nil {
				continue
			}
			for _, c := range commands {
				if !strings.HasPrefix(c.Ref, "refs/") || strings.ContainsAny(c.Ref, " :*?[\\^~\n\x00") || strings.HasPrefix(c.Branch(), "-") {
					t.Errorf("took %q", c.Ref)
				}
				for _, id := range []string{c.Old, c.New} {
					if id != "" && (len(id) != idLength(format) || strings.Trim(id, "0123456789abcdef") != "") {
						t.Errorf("took the object %q", id)
					}
				}
			}
		}
	})
}
func TestOfferRefs(t *testing.T) {
	for name, c := range map[string]struct {
		refs []Ref
		head string
		want string
	}{
		"nothing": {nil, "", zero + " capabilities^{}\x00C\n"},
		"a tag, and no HEAD": {[]Ref{{Name: "refs/heads/main", ID: one}, {Name: "refs/tags/v1", ID: two, Peeled: one}}, "refs/heads/gone",
			one + " refs/heads/main\x00C\n" + two + " refs/tags/v1\n" + one + " refs/tags/v1^{}\n"},
		"HEAD": {[]Ref{{Name: "refs/heads/a", ID: one}, {Name: "refs/heads/main", ID: two}}, "refs/heads/main",
			two + " HEAD\x00S\n" + one + " refs/heads/a\n" + two + " refs/heads/main\n"},
	} {
		var b strings.Builder
		if err := OfferRefsHTTP(&b, "sha1", c.refs, c.head); err != nil {
			t.Fatal(err)
		}
		got, in := "", strings.NewReader(b.String())
		for ends := 0; ends < 2; {
			text, end, err := readPktLine(in)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if end {
				ends++
			}
			got += text
		}
		const caps = "multi_ack_detailed thin-pack side-band-64k ofs-delta object-format=sha1"
		got = strings.TrimPrefix(got, "# service=git-upload-pack\n")
		got = strings.Replace(got, caps+" symref=HEAD:refs/heads/main agent=coffer", "S", 1)
		got = strings.Replace(got, caps+" agent=coffer", "C", 1)
		if got != c.want || in.Len() != 0 {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
