package policy

import (
	"strings"
	"testing"
)

func TestNormalPath(t *testing.T) {
	for in, want := range map[string]string{
		"/":              "/",
		"/a/b":           "/a/b",
		"/a/b/":          "/a/b",
		"/a//b":          "/a/b",
		"//a":            "/a",
		"/a/./b/.":       "/a/b",
		"/a/../b":        "/b",
		"/a/%2e%2E/b":    "/b",
		"/a/.%2e/b":      "/b",
		"/../../etc":     "/etc",
		"/..":            "/",
		"/%61dmin":       "/admin",
		"/a%20b":         "/a b",
		"/a?x=/../y":     "/a",
		"/a?x;y":         "/a",
		"/?q":            "/",
		"/.well-known/x": "/.well-known/x",
		"/...":           "/...",
		"/%C3%A9":        "/é",
		"/é":             "/é",
		"/@scope%2fname": "/@scope%2Fname",
		"/100%25":        "/100%25",
		"/a%3fb%23":      "/a%3Fb%23",
		"/a/b/../":       "/a",
		"/a*b":           "/a*b",
	} {
		if got, ok := NormalPath(in); !ok || got != want {
			t.Errorf("NormalPath(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"", "a", "*", "http://example.com/", "example.com:443", "?x",
		"/a%", "/a%2", "/%zz", "/%00", "/a\x00", "/a\r\nb", "/%0a", "/\x7f",
		`/a\..\b`, "/a%5c..%5cb", "/%252e%252e/x", "/%25%32%65", "/%2525", "/a#b",
		"/..;/admin", "/admin;x=1/y", "/admin%3bx", "/%c0%ae%c0%ae/x", "/\xff",
		"/a//../b", "/a//b/../c", "//../x", "/" + strings.Repeat("a", maxPath),
	} {
		if got, ok := NormalPath(in); ok {
			t.Errorf("NormalPath(%.40q) = %.40q, want none", in, got)
		}
	}
}

func TestPathPattern(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, not []string
	}{
		{"/", []string{"/", "//", "/."}, []string{"/a"}},
		{"/a", []string{"/a", "/a/", "/a?q", "/b/../a", "/%61"}, []string{"/", "/A", "/a/b", "/ab"}},
		{"/a/*", []string{"/a/b", "/a/b/"}, []string{"/a", "/a/", "/a/b/c"}},
		{"/a/*/c", []string{"/a/b/c"}, []string{"/a/c", "/a/b/b/c"}},
		{"/a/**", []string{"/a", "/a/", "/a/b", "/a/b/c"}, []string{"/", "/ab", "/b/a"}},
		{"/**", []string{"/", "/a", "/a/b"}, nil},
		{"/**/c", []string{"/c", "/a/c", "/a/b/c", "/c/c"}, []string{"/", "/c/d"}},
		{"/a/**/b/**/c", []string{"/a/b/c", "/a/x/b/y/z/c", "/a/b/b/c/c"}, []string{"/a/c", "/a/b/x", "/b/c"}},
		{"/*.git/info", []string{"/x.git/info", "/.git/info"}, []string{"/x/info", "/a/x.git/info"}},
		{"/v*/m*n", []string{"/v1/mn", "/v/main", "/v22/mnn"}, []string{"/v1/m", "/x1/mn"}},
		{"/a%20b/", []string{"/a b", "/a%20b"}, []string{"/a"}},
		{"/**/**", []string{"/", "/a"}, nil},
	} {
		p, err := parsePathPattern(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		for _, path := range append(c.yes, c.not...) {
			clean, ok := NormalPath(path)
			if !ok {
				t.Fatalf("%q has no normal form", path)
			}
			want := strings.Contains("\n"+strings.Join(c.yes, "\n")+"\n", "\n"+path+"\n")
			if got := p.match(clean); got != want {
				t.Errorf("%q matches %q: %v", c.pattern, path, got)
			}
		}
	}
	for _, bad := range []string{"", "a", "**", "/a**", "/a/**b", "/***", "/a?b", "/a#b", "/a%", `/a\b`, "/a;b"} {
		if _, err := parsePathPattern(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// matchNaively is the definition of a pattern.
func matchNaively(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return matchNaively(pattern[1:], path) || len(path) > 0 && matchNaively(pattern, path[1:])
	}
	return len(path) > 0 && segmentNaively(pattern[0], path[0]) && matchNaively(pattern[1:], path[1:])
}

func segmentNaively(pattern, s string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '*':
		return segmentNaively(pattern[1:], s) || s != "" && segmentNaively(pattern, s[1:])
	}
	return s != "" && s[0] == pattern[0] && segmentNaively(pattern[1:], s[1:])
}

func FuzzNormalPath(f *testing.F) {
	for _, s := range [][2]string{
		{"/a/../b", "/a/**"}, {"/%2e%2e/x", "/*"}, {"/a%2Fb", "/a/*"}, {"/%25%32%65", "/**/a"}, {"/a//../b", "/*a*b*"}, {"/..%2f..%2fx", "/x"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, path, pattern string) {
		clean, ok := NormalPath(path)
		if !ok {
			return
		}
		if again, ok := NormalPath(clean); !ok || again != clean {
			t.Errorf("NormalPath(%q) = %q, of which it is %q, %v", path, clean, again, ok)
		}
		checkClean(t, path, clean)
		if first, second, ok := readings(path); ok {
			checkClean(t, path, first)
			checkClean(t, path, second)
		}
		p, err := parsePathPattern(pattern)
		if err != nil || strings.Count(pattern, "*") > 6 || len(pattern) > 40 || len(clean) > 80 {
			return // the definition takes its time
		}
		var segments []string
		if clean != "/" {
			segments = strings.Split(clean[1:], "/")
		}
		normal, _ := NormalPath(pattern)
		if got, want := p.match(clean), matchNaively(strings.FieldsFunc(normal, func(r rune) bool { return r == '/' }), segments); got != want {
			t.Errorf("%q matches %q: %v", pattern, clean, got)
		}
	})
}

func checkClean(t *testing.T, path, clean string) {
	t.Helper()
	if !strings.HasPrefix(clean, "/") || strings.Contains(clean, "//") || strings.ContainsAny(clean, "?#\\;\x00\r\n") {
		t.Errorf("NormalPath(%q) = %q is not clean", path, clean)
	}
	for s := range strings.SplitSeq(clean, "/") {
		if s == "." || s == ".." {
			t.Errorf("NormalPath(%q) = %q has dots", path, clean)
		}
	}
}
