package sniff

import (
	"bytes"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Bounds of the head of a request.
const (
	MaxHTTP   = 64 << 10
	maxFields = 256
	maxMethod = 32
)

// A Request is what the head of an HTTP/1 request says about where it goes and where
// it ends.
type Request struct {
	Method  string
	Target  string // as sent
	Path    string // of the target, as sent, without query; "" for CONNECT, "*" for OPTIONS *
	Host    string // in lower case, without port and trailing dot; an IPv6 address without brackets
	Port    uint16 // 80 if the request has none
	Minor   int    // of HTTP/1.0 or HTTP/1.1
	Upgrade string // in lower case, as sent; another protocol may follow

	ContentLength int64 // 0 without a body, -1 if Chunked
	Chunked       bool
	Close         bool // the client wants the connection to end after this request
	Len           int  // how many bytes the head took, with the empty line
}

func httpError(status int, msg string) error { return &Error{Status: status, Msg: msg} }
func badRequest(msg string) error            { return httpError(400, msg) }

// ParseHTTP reads the head of a request. need > 0 says that at least so many more bytes
// are needed; then the request is empty and err nil. An error is an *Error with Status.
//
// Every request must have exactly one Host, of HTTP/1.0 too, and a target in absolute
// form must name the same.
func ParseHTTP(b []byte) (r Request, need int, err error) {
	b = b[:min(len(b), MaxHTTP)]
	var p request
	end := bytes.Index(b, []byte(headEnd))
	if end < 0 {
		need, err = p.unfinished(b)
		return Request{}, need, err
	}
	p.Len = end + len(headEnd)
	rest := b[:p.Len]
	for first := true; ; first = false {
		var line []byte
		if line, rest, err = cutLine(rest); err != nil {
			return Request{}, 0, err
		}
		switch {
		case first:
			err = p.requestLine(line)
		case len(line) > 0:
			err = p.field(line)
		default:
			if err = p.finish(); err == nil {
				return p.Request, 0, nil
			}
		}
		if err != nil {
			return Request{}, 0, err
		}
	}
}

const headEnd = "\r\n\r\n"

// unfinished says how many bytes a head needs at least to be whole, and looks only for
// what would make a client wait for ever: a head without a version or with other ends
// of line may be all that it has to say. The rest is not worth reading twice.
func (r *request) unfinished(b []byte) (need int, err error) {
	for rest := b; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		if i == 0 || rest[i-1] != '\r' {
			return 0, badRequest("a line ends with a bare LF")
		}
		rest = rest[i+1:]
	}
	if line, _, ok := bytes.Cut(b, []byte("\r\n")); ok {
		if err := r.requestLine(line); err != nil {
			return 0, err
		}
	}
	if len(b) == MaxHTTP {
		return 0, httpError(431, "the head of the request is too long")
	}
	need = len(headEnd)
	for n := 1; n < len(headEnd); n++ {
		if bytes.HasSuffix(b, []byte(headEnd[:n])) {
			need = len(headEnd) - n
		}
	}
	return need, nil
}

// cutLine returns the first of whole lines, and the others. Lines end with CR and LF;
// neither may stand elsewhere.
func cutLine(b []byte) (line, after []byte, err error) {
	line, after, _ = bytes.Cut(b, []byte("\n"))
	line, ok := bytes.CutSuffix(line, []byte("\r"))
	if !ok {
		return nil, nil, badRequest("a line ends with a bare LF")
	}
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, badRequest("control character in the head of the request")
		}
	}
	return line, after, nil
}

// A request is a Request that is being read, with what must be compared at the end.
type request struct {
	Request
	authority  string // of a target in absolute or authority form
	fields     int
	hosts      int
	host       string
	lengths    int
	codings    int
	connection []string
}

func (r *request) requestLine(line []byte) error {
	method, rest, ok1 := strings.Cut(string(line), " ")
	target, version, ok2 := strings.Cut(rest, " ")
	switch {
	case !token(method) || len(method) > maxMethod:
		return badRequest("the request does not begin with a method")
	case !ok1 || !ok2:
		return badRequest("the request line has no version")
	case version == "HTTP/1.0" || version == "HTTP/1.1":
	case len(version) >= 6 && strings.HasPrefix(version, "HTTP/") && version[5] >= '0' && version[5] <= '9' && !strings.Contains(version, " "):
		return httpError(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
	default:
		return badRequest("malformed request line")
	}
	// Who keeps the method or the path does not keep the whole line.
	r.Method, r.Target, r.Minor = strings.Clone(method), target, int(version[7]-'0')
	return r.target()
}

// target takes the target apart, in one of its four forms.
func (r *request) target() error {
	path := r.Target
	if strings.ContainsAny(path, "\t#") {
		return badRequest("the target has characters that it must not have")
	}
	switch {
	case r.Method == "CONNECT":
		r.authority = path
		if _, _, ok := strings.Cut(path, ":"); !ok {
			return badRequest("the target of CONNECT has no port")
		}
		return nil
	case path == "*" && r.Method == "OPTIONS":
		r.Path = path
		return nil
	case len(path) > 7 && strings.EqualFold(path[:7], "http://"):
		end := strings.IndexAny(path[7:], "/?")
		if end < 0 {
			end = len(path) - 7
		}
		if end == 0 {
			return badRequest("the target has no host")
		}
		r.authority, path = path[7:7+end], path[7+end:]
	case !strings.HasPrefix(path, "/"):
		return badRequest("the target is neither a path nor an http URL")
	}
	path, _, _ = strings.Cut(path, "?")
	if _, err := url.PathUnescape(path); err != nil {
		return badRequest("the path has a malformed escape")
	}
	if path == "" {
		path = "/"
	}
	r.Path = strings.Clone(path)
	return nil
}

// field takes a header field.
func (r *request) field(line []byte) error {
	if r.fields++; r.fields > maxFields {
		return httpError(431, "too many header fields")
	}
	name, value, ok := strings.Cut(string(line), ":")
	switch {
	case line[0] == ' ' || line[0] == '\t':
		return badRequest("a header field is folded")
	case !ok || !token(name):
		return badRequest("malformed header field")
	}
	value = strings.Trim(value, " \t")
	switch strings.ToLower(name) {
	case "host":
		r.hosts++
		r.host = value
	case "content-length":
		r.lengths++
		return r.contentLength(value)
	case "transfer-encoding":
		r.codings++
		if !strings.EqualFold(value, "chunked") {
			return httpError(501, "the only transfer coding understood is chunked")
		}
		r.Chunked = true
	case "connection":
		r.connection = append(r.connection, list(value)...)
	case "trailer":
		for _, t := range list(value) {
			if !mayTrail(t) {
				return badRequest("a trailer must not be " + t)
			}
		}
	case "upgrade":
		if r.Upgrade != "" {
			r.Upgrade += ", "
		}
		r.Upgrade += strings.ToLower(value)
	}
	return nil
}

// list splits a value at its commas, in lower case.
func list(value string) []string {
	l := strings.Split(strings.ToLower(value), ",")
	for i := range l {
		l[i] = strings.Trim(l[i], " \t")
	}
	return l
}

func (r *request) contentLength(value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != value {
		return badRequest("malformed Content-Length")
	}
	r.ContentLength = n
	return nil
}

// finish compares what only the whole head tells.
func (r *request) finish() error {
	switch {
	case r.hosts != 1:
		return badRequest("a request must have one Host")
	case r.lengths > 1:
		return badRequest("a request must have at most one Content-Length")
	case r.codings > 1:
		return badRequest("a request must have at most one Transfer-Encoding")
	case r.codings > 0 && r.lengths > 0:
		return badRequest("Content-Length and Transfer-Encoding exclude each other")
	case r.codings > 0 && r.Minor == 0:
		return badRequest("HTTP/1.0 has no Transfer-Encoding")
	case r.Method == "CONNECT" && r.codings+r.lengths > 0:
		return badRequest("CONNECT has no body")
	}
	var ok bool
	if r.Host, r.Port, ok = hostPort(r.host); !ok {
		return badRequest("the Host is not a host")
	}
	if r.authority != "" {
		if host, port, ok := hostPort(r.authority); !ok || host != r.Host || port != r.Port {
			return badRequest("the target names another host than Host")
		}
	}
	if r.Chunked {
		r.ContentLength = -1
	}
	return r.persistence()
}

// persistence reads the Connection field. It must not declare a field that this package
// goes by to be meant for the next hop only, because the next hop could drop it.
func (r *request) persistence() error {
	keep := false
	for _, t := range r.connection {
		switch t {
		case "close":
			r.Close = true
		case "keep-alive":
			keep = true
		case "host", "content-length", "transfer-encoding":
			return badRequest("Connection must not name " + t)
		}
	}
	if r.Minor == 0 && !keep {
		r.Close = true
	}
	return nil
}

// hostPort splits host:port or [IPv6]:port. User names, escapes, zones and ports that
// are written in odd ways are refused.
func hostPort(s string) (host string, port uint16, ok bool) {
	port = 80
	var digits string
	var more bool
	if bracket := strings.IndexByte(s, ']'); strings.HasPrefix(s, "[") && bracket > 0 {
		a, err := netip.ParseAddr(s[1:bracket])
		if err != nil || !a.Is6() || a.Zone() != "" {
			return "", 0, false
		}
		host, digits = a.String(), s[bracket+1:]
		if digits, more = strings.CutPrefix(digits, ":"); !more && digits != "" {
			return "", 0, false
		}
	} else {
		host, digits, more = strings.Cut(s, ":")
		if host, ok = hostText(host); !ok {
			return "", 0, false
		}
	}
	if more {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != digits {
			return "", 0, false
		}
		port = uint16(n)
	}
	return host, port, true
}

// token says whether s can be a method or the name of a field.
func token(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// MayUpgrade says whether an offer of another protocol may be passed on: one alone, and one that
// carries no requests, whose hosts could no longer be seen.
func MayUpgrade(offer string) bool {
	return strings.EqualFold(offer, "websocket") || strings.EqualFold(offer, "tcp")
}
