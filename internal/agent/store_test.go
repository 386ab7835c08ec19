package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const oldToken = `{"tokens":{"id_token":"i","access_token":"a","refresh_token":"r","account_id":"me"},"OPENAI_API_KEY":null,"last_refresh":"2026"}`

// A token that was renewed inside is there for the next sandbox; one that is something
// else is not.
func TestRenew(t *testing.T) {
	a := codex()
	name := a.Credentials[0].Name
	for _, tt := range []struct {
		what, is string
		ok       bool
	}{
		{"renewed", strings.ReplaceAll(oldToken, `"a"`, `"fresh"`), true},
		{"untouched", oldToken, false},
		{"somebody else's", strings.ReplaceAll(oldToken, `"me"`, `"thief"`), false},
		{"a key instead", strings.ReplaceAll(oldToken, `null`, `"sk"`), false},
		{"a command", strings.Replace(oldToken, `"a"`, `"!touch x"`, 1), false},
		{"another kind", strings.Replace(oldToken, `"a"`, `["a"]`, 1), false},
		{"no JSON", "hello", false},
		{"no object", "[1]", false},
		{"nothing", "{}", false},
		{"twice", oldToken + oldToken, false},
		{"large", `{"a":"` + strings.Repeat("x", maxCredential) + `"}`, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h, dir := home(t)
			s := OpenStore(t.TempDir())
			put(t, s.file(a, a.Credentials[0]), oldToken)
			put(t, filepath.Join(dir, name), tt.is)
			got, err := s.take(a, h, given{})
			if got != tt.ok || (err != nil) == (tt.ok || tt.what == "untouched") {
				t.Errorf("renewed %v, %v", got, err)
			}
			want := oldToken
			if tt.ok {
				want = tt.is
			}
			if read(t, s.file(a, a.Credentials[0])) != want {
				t.Error("the store has something else")
			}
		})
	}
}

// A sandbox that has only what it was given, or has given already, does not take the store back to
// that; what it renews counts.
func TestRenewOnce(t *testing.T) {
	a := codex()
	h, dir := home(t)
	folder, s := t.TempDir(), OpenStore(t.TempDir())
	inside, stored := filepath.Join(dir, a.Credentials[0].Name), s.file(a, a.Credentials[0])
	if err := (Trace{Agent: a.Name, Credentials: a.Credentials, Store: s.dir}).Write(folder); err != nil {
		t.Fatal(err)
	}
	token := func(name string) string { return strings.ReplaceAll(oldToken, `"a"`, `"`+name+`"`) }
	look := func(want string, renewed bool) {
		t.Helper()
		if got, err := RenewFrom(folder, dir); got != renewed || err != nil || read(t, stored) != want {
			t.Errorf("renewed %v, %v, to %s", got, err, read(t, stored))
		}
	}
	put(t, stored, oldToken)
	if err := s.Seed(a, h, folder); err != nil {
		t.Fatal(err)
	}
	put(t, stored, token("theirs"))
	look(token("theirs"), false)
	if got := read(t, inside); got != token("theirs") {
		t.Errorf("the sandbox has %s, and another one has renewed it", got)
	}
	put(t, inside, token("mine"))
	look(token("mine"), true)
	put(t, stored, token("theirs"))
	look(token("theirs"), false)
	put(t, inside, token("newer"))
	look(token("newer"), true)
	// One that is refused stays in its sandbox until the store has another one.
	refused := strings.Replace(token("again"), `{`, `{"more":"x",`, 1)
	put(t, inside, refused)
	for _, want := range []string{refused, token("theirs")} {
		if err := s.Seed(a, h, folder); err != nil || read(t, inside) != want {
			t.Errorf("%v, the sandbox has %s", err, read(t, inside))
		}
		put(t, stored, token("theirs"))
	}
	put(t, inside, token("newer"))
	// Whoever was started by an older coffer has nothing noted.
	if err := os.Remove(filepath.Join(folder, givenName)); err != nil {
		t.Fatal(err)
	}
	put(t, stored, token("theirs"))
	look(token("newer"), true)
}

// A link is not a token that was renewed, though what it leads to looks like one.
func TestRenewNoLink(t *testing.T) {
	a := codex()
	name := a.Credentials[0].Name
	h, dir := home(t)
	s := OpenStore(t.TempDir())
	put(t, s.file(a, a.Credentials[0]), oldToken)
	put(t, filepath.Join(dir, filepath.Dir(name), "elsewhere"), strings.ReplaceAll(oldToken, `"a"`, `"fresh"`))
	if err := os.Symlink("elsewhere", filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.take(a, h, given{}); got || err == nil {
		t.Errorf("renewed %v, %v", got, err)
	}
	if read(t, s.file(a, a.Credentials[0])) != oldToken {
		t.Error("the store has something else")
	}
}

func TestStore(t *testing.T) {
	a := codex()
	h, dir := home(t)
	s := OpenStore(filepath.Join(t.TempDir(), "logins"))
	if _, ok := s.LoggedIn(a); ok {
		t.Error("logged in")
	}
	// Nobody asked for what is inside to be kept.
	put(t, filepath.Join(dir, a.Credentials[0].Name), oldToken)
	if got, err := s.take(a, h, given{}); got || err != nil {
		t.Errorf("%v %v", got, err)
	}
	if n, err := s.Keep(a, h); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if _, ok := s.LoggedIn(a); !ok {
		t.Error("not logged in")
	}
	if info, err := os.Stat(s.file(a, a.Credentials[0])); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	other, otherDir := home(t)
	if err := s.Seed(a, other, t.TempDir()); err != nil || read(t, filepath.Join(otherDir, a.Credentials[0].Name)) != oldToken {
		t.Error(err)
	}
	// A link in place of the file is no credential.
	file := filepath.Join(dir, a.Credentials[0].Name)
	os.Remove(file)
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Keep(a, h); err == nil {
		t.Error("kept a link")
	}
	if err := s.Seed(a, h, t.TempDir()); err != nil || read(t, file) != oldToken {
		t.Error(err)
	}
	mine := t.TempDir()
	put(t, filepath.Join(mine, a.Credentials[0].Name), strings.ReplaceAll(oldToken, "me", "also me"))
	host := Host{Home: mine, Variable: func(string) string { return "" }}
	if got := Imports(a, host); len(got) != 1 {
		t.Error(got)
	}
	if n, err := s.Import(a, host); n != 1 || err != nil || !strings.Contains(read(t, s.file(a, a.Credentials[0])), "also me") {
		t.Error(n, err)
	}
	if err := s.Forget(a); err != nil {
		t.Error(err)
	}
	if _, ok := s.LoggedIn(a); ok {
		t.Error("still logged in")
	}
}

// The login outside is where the agent itself would look for it.
func TestImportMoved(t *testing.T) {
	home, moved := t.TempDir(), t.TempDir()
	for _, tt := range []struct {
		a           *Agent
		value, want string
	}{
		{claude(), moved + "/", filepath.Join(moved, ".credentials.json")},
		{codex(), moved, filepath.Join(moved, "auth.json")},
		{codex(), "", filepath.Join(home, ".codex/auth.json")},
		{codex(), "moved", filepath.Join(home, ".codex/auth.json")},
		{codex(), home + "/.codex", filepath.Join(home, ".codex/auth.json")},
	} {
		host := Host{Home: home, Variable: func(name string) string {
			if name == tt.a.DirVar {
				return tt.value
			}
			return ""
		}}
		s := OpenStore(t.TempDir())
		put(t, filepath.Join(home, tt.a.Credentials[0].Name), `{"token":"home"}`)
		put(t, tt.want, `{"token":"wanted"}`)
		if got := Imports(tt.a, host); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s %q: %q", tt.a.Name, tt.value, got)
		}
		if n, err := s.Import(tt.a, host); n != 1 || err != nil || read(t, s.file(tt.a, tt.a.Credentials[0])) != `{"token":"wanted"}` {
			t.Errorf("%s %q: %d %v", tt.a.Name, tt.value, n, err)
		}
	}
	// A workspace may be such a place: a link of a sandbox's does not choose what is copied.
	a, file := codex(), filepath.Join(moved, "auth.json")
	os.Remove(file)
	if err := os.Symlink(filepath.Join(home, a.Credentials[0].Name), file); err != nil {
		t.Fatal(err)
	}
	s := OpenStore(t.TempDir())
	if n, err := s.Import(a, Host{Home: home, Variable: func(string) string { return moved }}); n != 0 || err == nil {
		t.Errorf("%d %v by a link", n, err)
	}
	// Nor does the directory itself.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(home, ".codex"), link); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Import(a, Host{Home: home, Variable: func(string) string { return link }}); n != 0 || err == nil {
		t.Errorf("%d %v by a link to a directory", n, err)
	}
}

// Only tokens of OAuth entries are taken from a sandbox: no key, no entry more, and nothing that
// another program would run.
func TestRenewTokensOnly(t *testing.T) {
	const was = `{"anthropic":{"type":"oauth","access":"a","refresh":"r","expires":1},"openai":{"type":"api_key","key":"sk-1"}}`
	for _, tt := range []struct{ is, want string }{
		{strings.Replace(was, `"a"`, `"b"`, 1), strings.Replace(was, `"a"`, `"b"`, 1)},
		{strings.Replace(was, `"expires":1`, `"expires":2`, 1), strings.Replace(was, `"expires":1`, `"expires":2`, 1)},
		{strings.Replace(was, `sk-1`, `!touch x`, 1), was},
		{strings.Replace(was, `sk-1`, `sk-2`, 1), was},
		{strings.Replace(was, `"oauth"`, `"api_key"`, 1), was},
		{strings.Replace(was, `"type":"oauth","access":"a"`, `"type":"api_key","key":"!touch x","access":"b"`, 1), was},
		{strings.Replace(was, `"type":"oauth","access":"a"`, `"type":["oauth"],"access":"b"`, 1), was},
		{strings.Replace(was, `{`, `{"more":{"type":"api_key","key":"!touch x"},`, 1), was},
		{strings.Replace(strings.Replace(was, `{`, `{"more":{"type":"api_key","key":"!touch x"},`, 1), `"a"`, `"b"`, 1), strings.Replace(was, `"a"`, `"b"`, 1)},
		{strings.Replace(was, `"a"`, `"!touch x"`, 1), ""},
		{strings.Replace(was, `"a"`, `"$(x)"`, 1), ""},
		{strings.Replace(was, `"a"`, `"a\n"`, 1), ""},
		{strings.Replace(was, `"a"`, `{"type":"oauth"}`, 1), ""},
		{strings.Replace(was, `"a"`, `"`+strings.Repeat("a", 20<<10)+`"`, 1), ""},
	} {
		got, err := pi().Credentials[0].refresh([]byte(was), []byte(tt.is))
		if (err != nil) != (tt.want == "") || err == nil && !reflect.DeepEqual(object(got), object([]byte(tt.want))) {
			t.Errorf("%.200s became %s, %v", tt.is, got, err)
		}
	}
}

// Whatever a sandbox makes of its credentials, only the alphabet of tokens gets through.
func FuzzRenew(f *testing.F) {
	f.Add([]byte(oldToken), []byte(strings.ReplaceAll(oldToken, `"a"`, `"b"`)))
	f.Add([]byte(`{"a":[1,{"b":null}]}`), []byte(`{"a":[{}]}`))
	f.Add([]byte(`{"a":{"token":"x"}}`), []byte(`{"a":{"token":"!x"}}`))
	f.Fuzz(func(t *testing.T, was, is []byte) {
		for _, c := range []Credential{{}, pi().Credentials[0], codex().Credentials[0]} {
			now, err := c.refresh(was, is)
			if err != nil {
				continue
			}
			var check func(old, new any)
			check = func(old, new any) {
				m, ok := new.(map[string]any)
				if !ok && !reflect.DeepEqual(old, new) && !isToken(new) {
					t.Errorf("%q became %q by %q", was, now, is)
				}
				before, _ := old.(map[string]any)
				if ok && len(before) != len(m) {
					t.Errorf("%q has more or less than %q, by %q", now, was, is)
				}
				for name := range m {
					check(before[name], m[name])
				}
			}
			old, _ := credential(was)
			new, err := credential(now)
			if err != nil {
				t.Fatal(err)
			}
			check(old, new)
		}
	})
}
