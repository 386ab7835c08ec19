package intercept

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// A target that passes is read alike by those who decode it first and those who split it first, and
// neither finds anything to resolve.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/a/b?c=/../d", "/a/../b", "/a%2fb", "/@a%2Fb", "/@a%2f..", "//", "/%2e", "/a%252fb", "/a;b/", "*", "https://x/", "/\\", "/a/%", "/@%2f", "/@a%2f%2e%2e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if unclear(target) != "" {
			return
		}
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return // net/http refuses it
		}
		if u.Scheme != "" || u.Host != "" || strings.ContainsAny(u.Path, "\\\x00") {
			t.Fatalf("%q is %+v", target, u)
		}
		whole := strings.TrimSuffix(u.Path, "/")
		if clean := path.Clean(u.Path); whole != "" && clean != whole {
			t.Errorf("%q is %q for some and %q for others", target, u.Path, clean)
		}
		raw, _, _ := strings.Cut(target, "?")
		if more := strings.Count(u.Path, "/") - strings.Count(raw, "/"); more > 1 || more == 1 && !strings.HasPrefix(u.Path, "/@") {
			t.Errorf("%q has other segments when it is decoded: %q", target, u.Path)
		}
		if twice, err := url.PathUnescape(u.Path); err == nil && twice != u.Path {
			t.Errorf("%q is encoded twice", target)
		}
	})
}
