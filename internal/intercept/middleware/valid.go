package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// framing are the fields that say where a message ends and whom it is for. They are net/http's to
// write: a script that could would let a second request hide in the first one.
var framing = map[string]bool{
	"Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Http2-Settings": true, "Keep-Alive": true,
	"Proxy-Connection": true, "Sec-Websocket-Extensions": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// setHeader sets a field to one value, or removes it.
func setHeader(h http.Header, name string, value *string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%q is not the name of a header", clip(name))
	case framing[http.CanonicalHeaderKey(name)]:
		return fmt.Errorf("the header %s cannot be changed", http.CanonicalHeaderKey(name))
	case value == nil:
		h.Del(name)
		return nil
	case len(*value) > 64<<10 || !httpguts.ValidHeaderFieldValue(*value):
		return fmt.Errorf("the value of the header %s has characters that it must not have, or is too long", http.CanonicalHeaderKey(name))
	}
	h.Set(name, strings.Trim(*value, " \t"))
	return nil
}

// parsePath reads a path with a query that all servers understand alike. The rules have decided
// about the path that the program asked for; a script is the user's and may choose another one.
func parsePath(s string) (*url.URL, error) {
	path, _, _ := strings.Cut(s, "?")
	bad := len(s) > 16<<10 || !strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.ContainsAny(s, "#\\\"<>^`{|}")
	for i := range len(s) {
		bad = bad || s[i] <= ' ' || s[i] >= 0x7f
	}
	for segment := range strings.SplitSeq(path, "/") {
		plain, err := url.PathUnescape(segment)
		name, _, _ := strings.Cut(plain, ";")
		bad = bad || err != nil || name == "." || name == ".." || strings.ContainsAny(plain, "/\\%\x00")
	}
	u, err := url.ParseRequestURI(s)
	if bad || err != nil || u.Host != "" || u.Scheme != "" {
		return nil, errors.New("a path begins with one /, and has no spaces, no .. and no encoded slashes")
	}
	return u, nil
}

// clip bounds what is said to people.
func clip(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}
