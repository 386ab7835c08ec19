// Package middleware runs the Lua scripts of a policy over HTTP requests and responses.
//
// Each exchange gets a Lua of its own, which ends with it, so that no script can keep anything from
// one request to the next. A script is bounded in what it computes, in memory and in time, and one
// that fails refuses its request.
//
// The interpreter alone does not keep its bounds: a metamethod that calls itself, a nested pcall and
// a coroutine that closes variables all get past them. What replaces those parts is in machine.go.
package middleware

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/arnodel/golua/code"
	rt "github.com/arnodel/golua/runtime"
	"github.com/cofferhq/coffer/internal/intercept"
)

// What a script may use in one call: for a request, for an event, for a message.
const (
	maxSource    = 32 << 10
	maxBody      = 8 << 20
	maxEvent     = 1 << 20
	maxSteps     = 10_000_000 // some tenths of a second
	maxMemory    = 32 << 20
	maxMillis    = 2000          // without what it waits for the network
	maxStream    = 8 * maxMemory // memory of all calls for one stream
	maxLogs      = 100
	maxLogLength = 4 << 10
)

// A Script is a stage that runs a Lua program on every request to its hosts.
type Script struct {
	Name  string            // what errors call it
	Hosts []string          // host[:port], *.example.com and *; none: all
	Env   map[string]string // what the script sees as env; it never enters the sandbox
	Log   func(line string) // takes what the script logs, and why it failed; may be nil

	unit *code.Unit
}

var _ intercept.Stage = (*Script)(nil)

// Compile reads a script. An error has the script's name and the line.
func Compile(name string, source []byte) (s *Script, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("compile %s: %v", name, r)
		}
	}()
	if len(source) > maxSource {
		return nil, fmt.Errorf("compile %s: a script is at most %d bytes long", name, maxSource)
	}
	// On the first line, so that the others keep their numbers.
	unit, _, err := newRuntime().CompileLuaChunk(name, append([]byte("local req = ... "), source...))
	if err != nil {
		return nil, fmt.Errorf("compile %w", err)
	}
	return &Script{Name: name, unit: unit}, nil
}

// Wants implements [intercept.Stage].
func (s *Script) Wants(host string, port uint16) bool {
	for _, pattern := range s.Hosts {
		if hostMatches(pattern, host, fmt.Sprint(port)) {
			return true
		}
	}
	return len(s.Hosts) == 0
}

// hostMatches says whether host[:port], where host may be * or *.example.com, means a host.
func hostMatches(pattern, host, port string) bool {
	if name, number, err := net.SplitHostPort(pattern); err == nil {
		if number != port {
			return false
		}
		pattern = name
	}
	pattern, host = strings.ToLower(strings.Trim(pattern, "[]")), strings.ToLower(host)
	below, wild := strings.CutPrefix(pattern, "*.")
	return pattern == "*" || pattern == host || wild && strings.HasSuffix(host, "."+below)
}

// Exchange implements [intercept.Stage]: it runs the script, which may send the request itself. If it
// neither sends nor denies, the request is sent as the script left it.
func (s *Script) Exchange(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	x := &exchange{machine: newMachine(s), req: req, next: next}
	err := x.call(maxMemory, func(t *rt.Thread) error {
		return rt.Call(t, rt.FunctionValue(x.LoadLuaUnit(s.unit, rt.TableValue(x.env))), []rt.Value{x.request()}, rt.NewTerminationWith(nil, 0, true))
	})
	switch {
	case x.sendErr != nil: // whatever the script made of it
		err = x.sendErr
	case x.denied != nil:
		err = x.denied
	case err == nil && x.res == nil:
		return next.RoundTrip(req)
	}
	if err != nil && x.res != nil {
		_ = x.res.Body.Close()
		return nil, err
	}
	return x.res, err
}

// An exchange is one request and its response, as a script sees them.
type exchange struct {
	*machine
	req     *http.Request
	next    http.RoundTripper
	res     *http.Response
	sent    bool
	sendErr error
	denied  *intercept.Refusal
}

// request makes the object req.
func (x *exchange) request() rt.Value {
	m := &message{machine: x.machine, header: &x.req.Header, body: &x.req.Body, length: &x.req.ContentLength}
	o := m.object()
	o.get["method"] = func() rt.Value { return rt.StringValue(x.req.Method) }
	o.get["host"] = func() rt.Value { return rt.StringValue(x.req.URL.Hostname()) }
	o.get["path"] = func() rt.Value { return rt.StringValue(x.req.URL.RequestURI()) }
	o.set["path"] = func(v rt.Value) error {
		text, _ := v.TryString()
		u, err := parsePath(text)
		if err == nil {
			x.req.URL.Path, x.req.URL.RawPath, x.req.URL.RawQuery, x.req.URL.ForceQuery = u.Path, u.RawPath, u.RawQuery, u.ForceQuery
		}
		return err
	}
	o.method["hostMatches"] = func(_ *rt.Thread, args []rt.Value) (rt.Value, error) {
		pattern, err := text(args, 0)
		port := x.req.URL.Port()
		if port == "" {
			port = "443"
		}
		return rt.BoolValue(hostMatches(pattern, x.req.URL.Hostname(), port)), err
	}
	o.method["deny"] = func(_ *rt.Thread, args []rt.Value) (rt.Value, error) {
		reason, err := text(append(args, rt.StringValue("the script "+x.script.Name+" refuses this request")), 0)
		x.denied = &intercept.Refusal{Rule: x.script.Name, Reason: clip(reason)}
		return rt.NilValue, err
	}
	o.method["send"] = func(*rt.Thread, []rt.Value) (rt.Value, error) {
		if x.sent || x.denied != nil {
			return rt.NilValue, errors.New("the request was sent or denied before")
		}
		x.sent, m.final = true, true
		if x.req.Header.Get("Upgrade") != "" {
			x.req.Header.Del("Sec-Websocket-Extensions") // compressed messages could not be listened to
		}
		x.outside(func() { x.res, x.sendErr = x.next.RoundTrip(x.req) })
		if x.sendErr != nil {
			return rt.NilValue, errors.New("the server gave no response")
		}
		return x.response(), nil
	}
	return x.table(o)
}

// response makes the object res.
func (x *exchange) response() rt.Value {
	m := &message{machine: x.machine, header: &x.res.Header, body: &x.res.Body, length: &x.res.ContentLength}
	o := m.object()
	o.get["status"] = func() rt.Value { return rt.IntValue(int64(x.res.StatusCode)) }
	o.set["status"] = func(v rt.Value) error {
		n, ok := rt.ToInt(v)
		if !ok || n < 200 || n > 599 || x.res.StatusCode < 200 {
			return errors.New("a status is a number from 200 to 599, and that of an upgraded connection stays")
		}
		x.res.StatusCode, x.res.Status = int(n), fmt.Sprintf("%d %s", n, http.StatusText(int(n)))
		return nil
	}
	o.method["each"] = func(_ *rt.Thread, args []rt.Value) (rt.Value, error) {
		if len(args) == 0 || args[0].Type() != rt.FunctionType {
			return rt.NilValue, errors.New("each wants a function")
		}
		return rt.NilValue, x.each(m, args[0])
	}
	return x.table(o)
}

// A message is what requests and responses have in common.
type message struct {
	*machine
	header *http.Header
	body   *io.ReadCloser
	length *int64
	final  bool // it is on its way
	each   bool // what it says passes through a function
	whole  *rt.Table
}

var errFinal = errors.New("the request was sent before")

// object has the fields and methods of both. A change of a message that is on its way is an error.
func (m *message) object() *object {
	o := &object{get: map[string]func() rt.Value{}, set: map[string]func(rt.Value) error{}, method: map[string]method{}}
	o.get["headers"] = func() rt.Value {
		all := rt.NewTable()
		for name, values := range *m.header {
			if len(values) > 0 {
				m.SetTable(all, rt.StringValue(strings.ToLower(name)), rt.StringValue(values[len(values)-1]))
			}
		}
		return rt.TableValue(all)
	}
	o.set["headers"] = func(v rt.Value) error {
		if m.final {
			return errFinal
		}
		t, ok := v.TryTable()
		if !ok {
			return errors.New("headers are a table of names and values")
		}
		return m.setHeaders(t)
	}
	o.method["header"] = func(_ *rt.Thread, args []rt.Value) (rt.Value, error) {
		name, err := text(args, 0)
		values := m.header.Values(name)
		if err != nil || len(values) == 0 {
			return rt.NilValue, err
		}
		return rt.StringValue(values[len(values)-1]), nil
	}
	o.method["setHeader"] = func(_ *rt.Thread, args []rt.Value) (rt.Value, error) {
		if m.final {
			return rt.NilValue, errFinal
		}
		name, err := text(args, 0)
		if err != nil || len(args) < 2 || args[1].IsNil() {
			return rt.NilValue, errors.Join(err, setHeader(*m.header, name, nil))
		}
		value, err := text(args, 1)
		return rt.NilValue, errors.Join(err, setHeader(*m.header, name, &value))
	}
	o.method["body"] = func(t *rt.Thread, _ []rt.Value) (rt.Value, error) { return m.readBody(t) }
	o.method["setBody"] = func(t *rt.Thread, args []rt.Value) (rt.Value, error) {
		if m.final {
			return rt.NilValue, errFinal
		}
		return rt.NilValue, m.setBody(t, append(args, rt.NilValue)[0])
	}
	return o
}

// setHeaders replaces all fields. One that had several values keeps them if its last one is there
// unchanged, which is what a script sees of it.
func (m *message) setHeaders(t *rt.Table) error {
	all := http.Header{}
	for name, values := range *m.header {
		if framing[http.CanonicalHeaderKey(name)] {
			all[name] = values
		}
	}
	for k, v, ok := t.Next(rt.NilValue); ok && !k.IsNil(); k, v, ok = t.Next(k) {
		m.RequireCPU(1)
		name, _ := k.TryString()
		value, isText := v.ToString()
		if framing[http.CanonicalHeaderKey(name)] && value == m.header.Get(name) {
			continue // as it was read
		}
		if old := m.header.Values(name); isText && len(old) > 0 && old[len(old)-1] == value {
			all[http.CanonicalHeaderKey(name)] = old
		} else if !isText {
			return fmt.Errorf("the value of the header %q is no text", clip(name))
		} else if err := setHeader(all, name, &value); err != nil {
			return err
		}
	}
	clear(*m.header)
	maps.Copy(*m.header, all)
	return nil
}
