package knock

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/sandbox"
)

func TestFind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandboxes")
	store, err := sandbox.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for name, dir := range map[string]string{"web": "/here", "web-2": "/twice", "other": "/twice"} {
		sb, lock, err := store.Create(sandbox.Record{Name: name, Workspace: sandbox.Workspace{Path: dir, Mode: sandbox.WorkspaceDirect}})
		if err != nil {
			t.Fatal(err)
		}
		lock.Release()
		ids[name] = sb.ID
	}
	for match, want := range map[string]string{
		"web": ids["web"], "web-2": ids["web-2"], "other": ids["other"], ids["web"]: ids["web"],
		"we": "", "oth": "", ids["web"][:4]: "", "..": "", ".": "", `web",`: "",
	} {
		if got, _ := find(dir, entries(dir), match, "/"); got != want {
			t.Errorf("%q is %q, want %q", match, got, want)
		}
		// Who finds one here finds the same there.
		if sb, err := store.Find(match); want != "" && (err != nil || sb.ID != want) {
			t.Errorf("the store finds %v, %v", sb, err)
		}
	}
	for here, want := range map[string]string{"/here": ids["web"], "/twice": "", "/here/below": "", "/": "", "/he": "", `/"here`: ""} {
		if got, _ := find(dir, entries(dir), "", here); got != want {
			t.Errorf("in %s it is %q, want %q", here, got, want)
		}
		if over := store.Over(here); want != "" && (len(over) != 1 || over[0].ID != want) {
			t.Errorf("the store has %v", over)
		}
	}
	// What is too long to be read here counts all the same.
	sb, lock, err := store.Create(sandbox.Record{Name: "long", Env: []string{"A=" + strings.Repeat("x", maxRecord)}, Workspace: sandbox.Workspace{Path: "/here", Mode: sandbox.WorkspaceDirect}})
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	for _, c := range [][2]string{{"", "/here"}, {"long", "/"}, {sb.ID, "/"}} {
		if got, _ := find(dir, entries(dir), c[0], c[1]); got != "" {
			t.Errorf("%q in %s is %s", c[0], c[1], got)
		}
	}
	if got, _ := find(dir, entries(dir), "web", "/"); got != ids["web"] {
		t.Errorf("beside a long one, it is %q", got)
	}
	// Of another version we know nothing.
	file := filepath.Join(dir, ids["other"], "sandbox.json")
	record, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("{\n  \"version\": 4"), record[len("{\n  \"version\": 4"):]...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, match := range []string{"other", ids["other"]} {
		if got, _ := find(dir, entries(dir), match, "/"); got != "" {
			t.Error("a record of another version was taken for ", match)
		}
	}
	if got, _ := find(dir, entries(dir), "", "/twice"); got != "" {
		t.Errorf("of two over a directory, one of another version, it is %q", got)
	}
}

func TestPlace(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "")
	dir := filepath.Join(home, ".local/share/coffer/sandboxes")
	if _, ok := place(); ok {
		t.Error("a store that is not there was found")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, ok := place(); !ok || got != dir {
		t.Errorf("got %q, %v", got, ok)
	}
	if want, err := sandbox.DefaultDir(); err != nil || want != dir {
		t.Errorf("the store is at %q, %v", want, err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, ok := place(); ok {
		t.Error("a store that others can write was taken")
	}
}

func TestRequest(t *testing.T) {
	k := &Knock{Args: Args{Command: []string{"printf", "", "\xff"}}, NoInput: true, Merged: true}
	env := []string{"A=1", "B=\xff"}
	b := k.pack(env, "/here")
	if n := int(b[2])<<8 | int(b[3]); n != len(b)-4 {
		t.Errorf("a length of %d before %d bytes", n, len(b)-4)
	}
	r, ok := Open(b[4:])
	if !ok || r.Dir != "/here" || !r.NoInput || !r.Merged || len(r.Argv) != 3 || string(r.Argv[2]) != "\xff" || !slices.Equal(r.Env, env) {
		t.Errorf("%+v, %v", r, ok)
	}
	for n := range len(b) - 4 {
		if _, ok := Open(b[4 : 4+n]); ok {
			t.Errorf("%d bytes of it were enough", n)
		}
	}
	if r.Umask != nil {
		t.Errorf("the usual umask is %#o", *r.Umask)
	}
	mask := uint16(0o077)
	k.Umask = &mask
	if r, ok := Open(k.pack(env, "/here")[4:]); !ok || r.Umask == nil || *r.Umask != mask || r.Dir != "/here" {
		t.Errorf("with a umask: %+v, %v", r, ok)
	}
	mask = 0o1000
	if r, ok := Open(k.pack(env, "/here")[4:]); ok {
		t.Errorf("a umask of %#o was taken", *r.Umask)
	}
}

func FuzzOpen(f *testing.F) {
	k := &Knock{Args: Args{Command: []string{"true"}}}
	f.Add(k.pack([]string{"A=b"}, "/")[4:])
	f.Add([]byte("k\x07\x3f\x01/\x01\x04true\x00"))
	f.Add([]byte("k\x01\x00\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := Open(b); ok && len(r.Argv) == 0 {
			t.Error("a program without a name")
		}
	})
}

// frame is one as package wire sends it.
func frame(kind byte, body string) string {
	return string([]byte{kind, 0, 0, byte(len(body) >> 8), byte(len(body))}) + body
}

// The frames are those of package wire, which is too heavy to be asked.
func TestFrames(t *testing.T) {
	for ours, theirs := range map[byte]byte{
		output: wire.Output, errs: wire.Errors, taken: wire.Taken, started: wire.Started, exited: wire.Exited, lost: wire.Lost,
	} {
		if ours != theirs {
			t.Errorf("%q is %q there", ours, theirs)
		}
	}
	var said bytes.Buffer
	w := wire.NewFrameWriter(&said)
	for _, err := range []error{w.Taken(), w.Started(), w.Data(wire.Output, []byte("hi")), w.Exited(wire.Exit{}), w.Lost()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if all, simple := heard(said.Bytes(), true); !all || !simple {
		t.Errorf("%q: %v, %v", said.Bytes(), all, simple)
	}
}

func TestHeard(t *testing.T) {
	const well, out = "x\x00\x00\x00\x02\x00\x00", "\x01\x00\x00\x00\x02hi"
	for said, want := range map[string][4]bool{ // all and simple, then for who is patient
		"":                                      {false, true, false, true},
		frame('s', ""):                          {false, true, false, true},
		frame('t', "") + frame('s', ""):         {false, true, false, true},
		frame('s', "") + out:                    {false, true, false, true},
		frame('s', "") + out + well:             {true, true, false, true},
		frame('s', "") + well + frame('l', ""):  {true, true, true, true},
		frame('s', "") + out + well[:6]:         {false, true, false, true},
		frame('s', "") + out[:4]:                {false, true, false, true},
		frame('s', "") + frame('x', "\x01\x00"): {false, false, false, false},
		frame('s', "") + frame('x', "\x00\x09"): {false, false, false, false},
		frame('s', "") + frame('x', "\x00"):     {false, false, false, false},
		frame('m', "{}"):                        {false, false, false, false},
		frame('l', ""):                          {false, false, false, false},
		well + frame('n', "note"):               {true, true, false, false},
		frame('s', "x"):                         {false, false, false, false},
		"\x01\xff\xff\xff\xff":                  {false, true, false, true},
	} {
		all, simple := heard([]byte(said), false)
		pall, psimple := heard([]byte(said), true)
		if got := [4]bool{all, simple, pall, psimple}; got != want {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}

func TestSettled(t *testing.T) {
	dir := t.TempDir()
	record := "{\n  \"name\": \"x\"," + workspace + dir + "\",\n    \"mode\": \"direct\"\n  },\n  \"made_git\": true\n}\n"
	if !settled(record) || !settled("{\n}") {
		t.Error("there is something to warn of")
	}
	if settled("{\n  \"made_git\": true\n}") {
		t.Error("nobody knows where")
	}
	if err := os.WriteFile(filepath.Join(dir, "HEAD"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if settled(record) {
		t.Error("nobody is warned of what looks like a repository")
	}
}

func FuzzHeard(f *testing.F) {
	f.Add([]byte(frame('s', "")+frame(1, "hi")+frame('x', "\x00\x00")), false)
	f.Add([]byte("\x01\xff\xff\xff\xff"), true)
	f.Fuzz(func(t *testing.T, b []byte, patient bool) {
		if all, simple := heard(b, patient); all && !simple {
			t.Error("all of what is not simple")
		}
	})
}
