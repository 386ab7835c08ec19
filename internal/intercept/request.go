package intercept

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// check refuses a request that is not for the host and port that its connection is for, or whose
// path a server may read in another way than the rules do.
func check(r *http.Request, host string, port uint16) *Refusal {
	elsewhere := func() *Refusal {
		return &Refusal{Status: http.StatusMisdirectedRequest, Rule: builtin, Reason: "the request names another host or port than its connection is for"}
	}
	second, twice := r.Header["Host"] // HTTP/2 can have one beside :authority
	switch {
	case r.Method == http.MethodConnect:
		return &Refusal{Rule: builtin, Reason: "CONNECT is for proxies, and there is none"}
	case !isAuthority(r.Host, host, port):
		return elsewhere()
	case twice && (len(second) != 1 || second[0] != r.Host):
		return elsewhere()
	}
	if why := unclear(r.RequestURI); why != "" {
		return &Refusal{Status: http.StatusBadRequest, Rule: builtin, Reason: why}
	}
	return nil
}

const builtin = "built-in" // the rule of refusals that no rule could lift

// isAuthority says whether host[:port] is a host and a port, the usual one if it has none. There is
// no canonical form here: the server is told what the program wrote.
func isAuthority(text, host string, port uint16) bool {
	name, number, err := net.SplitHostPort(text)
	if err != nil {
		name, number = text, "443"
		if inner, ok := strings.CutPrefix(text, "["); ok {
			name, ok = strings.CutSuffix(inner, "]")
			if !ok || !strings.Contains(name, ":") {
				return false
			}
		}
	}
	if number != strconv.Itoa(int(port)) {
		return false
	}
	if want, err := netip.ParseAddr(host); err == nil {
		a, err := netip.ParseAddr(name)
		return err == nil && a.Unmap() == want
	}
	return strings.EqualFold(strings.TrimSuffix(name, "."), host)
}

// unclear says what servers may disagree about in a request's target, "" for nothing. A path that
// passes has the same segments for whoever decodes it before or after it is taken apart, and for
// whoever resolves dots or merges slashes.
func unclear(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(path, "/") {
		return "the target of a request must be a path"
	}
	if strings.ContainsAny(target, "#\\") {
		return "the target has characters that it must not have"
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] == 0x7f {
			return "the target has characters that it must not have"
		}
	}
	// They would be sent on escaped, and with them what is escaped otherwise.
	if strings.ContainsAny(path, "\"<>^`{|}") || strings.ContainsFunc(path, func(r rune) bool { return r > 0x7e }) {
		return "the path has characters that have to be escaped"
	}
	for at, segment := range strings.Split(path[1:], "/") {
		last := at == strings.Count(path, "/")-1
		if segment == "" && !last {
			return "the path has two slashes in a row"
		}
		plain, slash, ok := decode(segment)
		switch {
		case !ok:
			return "the path has a malformed escape, or one that servers read in different ways"
		case plain == "." || plain == "..":
			return "the path has a dot segment"
		case slash && !isScoped(segment, at):
			return "the path has an encoded slash"
		}
	}
	return ""
}

// isScoped: registries of npm know a package @scope/name as /@scope%2fname.
func isScoped(segment string, at int) bool {
	scope, name, ok := strings.Cut(strings.ReplaceAll(segment, "%2F", "%2f"), "%2f")
	return ok && at == 0 && strings.HasPrefix(scope, "@") && scope != "@" && !strings.Contains(scope+name, "%") && strings.Trim(name, ".") != ""
}

// decode decodes a segment. It is not ok if it holds what some take for the end of the path, for
// a separator, or for something that is encoded twice.
func decode(segment string) (plain string, slash, ok bool) {
	out := make([]byte, 0, len(segment))
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' {
			if i+2 >= len(segment) {
				return "", false, false
			}
			n, err := strconv.ParseUint(segment[i+1:i+3], 16, 8)
			if err != nil {
				return "", false, false
			}
			c, i = byte(n), i+2
			switch {
			case c == '/':
				slash = true
			case c == '%', c == '\\', c < ' ', c == 0x7f:
				return "", false, false
			}
		}
		out = append(out, c)
	}
	return string(out), slash, true
}
