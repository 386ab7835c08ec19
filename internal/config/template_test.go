package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": "", "DOLLAR": "${A}", "LONG": strings.Repeat("x", 1000)}
	lookup := func(n string) (string, bool) { v, ok := env[n]; return v, ok }
	for in, want := range map[string]string{
		"":                             "",
		"plain":                        "plain",
		"${A}":                         "1",
		"a${A}b${A}c":                  "a1b1c",
		"${NONE:-x}":                   "x",
		"${EMPTY:-x}":                  "x",
		"${EMPTY}":                     "",
		"${NONE:-}":                    "",
		"${A:-${NONE}}":                "1",
		"${NONE:-${OTHER:-${A}}}":      "1",
		"${NONE:-a${OTHER:-b}c}d":      "abcd",
		"$$":                           "$",
		"$${A}":                        "${A}",
		"$$${A}":                       "$1",
		"$A $ $5":                      "$A $ $5",
		"}":                            "}",
		"${DOLLAR}":                    "${A}", // a value is not a template
		"${NONE:-{}}":                  "{}",
		"${NONE}":                      "error: NONE",
		"${NONE:-${OTHER}}":            "error: OTHER",
		"${A":                          "error: }",
		"${A:-":                        "error: closed",
		"${}":                          "error: without",
		"${1A}":                        "error: without",
		"${A B}":                       "error: neither",
		"${A:x}":                       "error: neither",
		strings.Repeat("${A:-", 20):    "error: deep",
		strings.Repeat("${LONG}", 200): "error: longer",
	} {
		got, err := expand(in, lookup)
		if after, bad := strings.CutPrefix(want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), after) {
				t.Errorf("%.40q: got %.40q, %v, want an error about %q", in, got, err, after)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	names, err := mentions("${A:-${B}} $C $${D} ${E}")
	if err != nil || !slices.Equal(names, []string{"A", "B", "E"}) {
		t.Errorf("mentions %v, %v", names, err)
	}
}

// What is passed on, and what is made of it.
func TestEnvironment(t *testing.T) {
	for _, v := range []string{"T_ONE", "T_TWO", "OTHER_T", "COFFER_T"} {
		t.Setenv(v, "value of "+v)
	}
	w := newWorld(t)
	w.write(w.User, "[env]\npass = [\"T_*\", \"NOT_SET_AT_ALL\"]\nset = { T_TWO = \"mine\", X = \"<${OTHER_T}>\", Y = \"${NOT_SET_AT_ALL:-y}\" }")
	got, err := w.load().Environment()
	if want := []string{"T_ONE=value of T_ONE", "T_TWO=mine", "X=<value of OTHER_T>", "Y=y"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	w.write(w.User, "env.set.X = \"${NOT_SET_AT_ALL}\"")
	if _, err := w.load().Environment(); err == nil || !strings.Contains(err.Error(), "~/.config/coffer/config.toml:1:13: env.set.X needs your environment variable NOT_SET_AT_ALL") {
		t.Errorf("got %v", err)
	}
}

// A template never panics, never grows without bound, and reads no other variables than
// it says.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"${A}", "${A:-${B:-c}}", "$$", "${", "${A:-", "$${A}}", "${A:-}}${B}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := mentions(s)
		var asked []string
		out, err2 := expand(s, func(n string) (string, bool) { asked = append(asked, n); return "v", true })
		if (err == nil) != (err2 == nil) && len(s) < maxValue/2 {
			t.Fatalf("%q: %v but %v", s, err, err2)
		}
		if len(out) > len(s)+maxValue {
			t.Fatalf("%q became %d bytes", s, len(out))
		}
		for _, n := range asked {
			if err == nil && !slices.Contains(names, n) {
				t.Fatalf("%q reads %q, which is not among %q", s, n, names)
			}
			if !isName(n) && len(n) <= 200 {
				t.Fatalf("%q reads %q", s, n)
			}
		}
	})
}

// A file of a stranger's is either refused, with problems that have a place in it, or
// read; and then what is shown of it reads the same.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"", "nesting = true", "[limits]\nmemory = \"1g\"\npids = 1_000", "[[network.rules]]\nallow = [\"example.com\"]\n[[network.rules]]\nname=\"x\"",
		"a.b.c = {d = [1, {e = 2}]}", "[a]\n[a.b]\n[a]", "x = 1979-05-27T07:32:00Z", "x = 0x1f\ny = +1\nz = -0.0\nw = inf", "\"\\u0041\" = '''\n'''", "presets = [\"go\", \"strict\"]",
		"env.set = { A = \"${B:-c}\" }", "[mounts.m]\nsource=\"/x\"\ntarget=\"/y\"", "a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "a = 1\r\nb = 2\r\n", "a = \"\"\"\\\n  x\"\"\"",
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	l := &Loaded{places: Places{Dir: dir, Home: dir}}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, problems := l.layer("f", data, nil)
		for _, p := range problems {
			lines := strings.Count(string(data), "\n") + 1
			if p.Msg == "" || p.Line > lines {
				t.Fatalf("%q: %+v", data, p)
			}
		}
		if tree == nil && len(problems) == 0 {
			t.Fatalf("%q: nothing, and nothing wrong", data)
		}
		if tree == nil || len(problems) > 0 {
			return
		}
		shown := (&Loaded{tree: tree}).Show(false)
		again, problems := l.layer("f", []byte(shown), nil)
		if len(problems) > 0 {
			t.Fatalf("%q was shown as\n%s\n%v", data, shown, problems)
		}
		if again2 := (&Loaded{tree: again}).Show(false); again2 != shown {
			t.Fatalf("%q was shown as\n%s\nand then as\n%s", data, shown, again2)
		}
	})
}

func TestMain(m *testing.M) {
	os.Unsetenv("COFFER_SANDBOX")
	os.Exit(m.Run())
}
