package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

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

// A file of a stranger's is either refused, with problems that have a place in it, or
// read; and then what is shown of it reads the same.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"", "nesting = true", "[limits]\nmemory = \"1g\"\npids = 1_000", "[[network.rules]]\nallow = [\"example.com\"]\n[[network.rules]]\nname=\"x\"",
		"a.b.c = {d = [1, {e = 2}]}", "[a]\n[a.b]\n[a]", "x = 1979-05-27T07:32:00Z", "x = 0x1f\ny = +1\nz = -0.0\nw = inf", "\"\\u0041\" = '''\n'''", "presets = [\"go\", \"strict\"]",
		"env.set = { A = \"${B:-c}\" }", "[mounts.m]\nsource=\"/x\"\ntarget=\"/y\"", "a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "a = 1\r\nb = 2\r\n", "a = \"\"\"\\\n  x\"\"\"",
		"a = [1,\nb = 2\n[c\nd = \"\n[e]\n[f]\nx = y",
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	l := &Loaded{places: Places{Dir: dir, Home: dir}}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, problems := l.layer("f", data, false, nil)
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
		again, problems := l.layer("f", []byte(shown), false, nil)
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
