package middleware

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cofferhq/coffer/internal/intercept"
)

type server func(*http.Request) (*http.Response, error)

func (s server) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

// answer is a server with one response.
func answer(header, body string) server {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for line := range strings.SplitSeq(header, "\n") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				h.Add(name, value)
			}
		}
		return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
	}
}

func request(method, url, body string) *http.Request {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.RequestURI = ""
	return r
}

func compile(t testing.TB, source string) *Script {
	t.Helper()
	s, err := Compile("test.lua", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	s.Log = func(line string) { t.Log(clip(line)) }
	return s
}

// run runs a script on a request, and returns what the server got and what the client got.
func run(t *testing.T, source string, r *http.Request, s server) (sent *http.Request, body string, resp *http.Response, err error) {
	t.Helper()
	resp, err = compile(t, source).Exchange(r, server(func(r *http.Request) (*http.Response, error) {
		data, _ := io.ReadAll(r.Body)
		sent, body = r, string(data)
		return s(r)
	}))
	return sent, body, resp, err
}

func text4(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRequest(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"nothing":      {``, "POST /v1/a?b=c  hello"},
		"header":       {`req:setHeader("X-A", req.method .. req.path .. req.host .. req:header("accept"))`, "POST /v1/a?b=c POST/v1/a?b=capi.example.comtext/plain hello"},
		"number":       {`req:setHeader("x-a", 7)`, "POST /v1/a?b=c 7 hello"},
		"headers":      {`local h = req.headers h["x-a"] = h.accept req.headers = h`, "POST /v1/a?b=c text/plain hello"},
		"replaced":     {`req.headers = {["x-a"] = "1"} assert(req:header("accept") == nil)`, "POST /v1/a?b=c 1 hello"},
		"path":         {`req.path = "/v2" .. req.path`, "POST /v2/v1/a?b=c  hello"},
		"body":         {`assert(#req:body() == 5 and req:body():len() == 5) req:setBody(req:body():text():upper())`, "POST /v1/a?b=c  HELLO"},
		"same body":    {`req:setBody(req:body())`, "POST /v1/a?b=c  hello"},
		"no body":      {`req:setBody(nil)`, "POST /v1/a?b=c  "},
		"JSON":         {`req:setBody({a = {1, 2.5, "x", true}})`, `POST /v1/a?b=c  {"a":[1,2.5,"x",true]}`},
		"JSON again":   {`req:setBody('{"a":[],"b":{"c":null}}') local j = req:body():json() req:setBody({j.a, j.b})`, `POST /v1/a?b=c  [[],{"c":null}]`},
		"null":         {`req:setBody('[null]') assert(req:body():json()[1] == null)`, "POST /v1/a?b=c  [null]"},
		"matches":      {`assert(req:hostMatches("*.Example.com") and req:hostMatches("api.example.com:443") and req:hostMatches("*")) assert(not req:hostMatches("*.com:80") and not req:hostMatches("example.com"))`, "POST /v1/a?b=c  hello"},
		"pcall":        {`local ok, e = pcall(error, "x") assert(not ok and e:find("x")) local ok, e = pcall(error, {n=1}) assert(e.n == 1) assert(select(2, xpcall(error, function(e) return "!" end, "y")) == "!")`, "POST /v1/a?b=c  hello"},
		"metatable":    {`local C = {} C.__index = C function C:n() return self.x end local o = setmetatable({x = "4"}, C) assert(getmetatable(o) == C) req:setHeader("x-a", o:n())`, "POST /v1/a?b=c 4 hello"},
		"operators":    {`local t = setmetatable({}, {__add = function(a, b) return b end, __call = function(_, x) return x end, __concat = function() return "c" end, __eq = function() return true end, __len = function() return 3 end}) req:setHeader("x-a", (t + 1) .. t(2) .. (t .. "") .. #t)`, "POST /v1/a?b=c 12c3 hello"},
		"misspelt":     {`local ok = pcall(function() req.paht = "/" end) assert(not ok)`, "POST /v1/a?b=c  hello"},
		"libraries":    {`assert(("x"):rep(3) == "xxx" and table.concat({1, 2}, ",") == "1,2" and math.max(1, 2) == 2 and utf8.char(228) == "ä" and string.format("%d", 3) == "3")`, "POST /v1/a?b=c  hello"},
		"nothing else": {`for _, n in ipairs{"io", "os", "package", "debug", "load", "loadstring", "loadfile", "dofile", "require", "coroutine", "collectgarbage", "golib", "runtime", "warn"} do assert(_G[n] == nil, n) end assert(string.dump == nil and getmetatable("") == false and getmetatable(req) == false)`, "POST /v1/a?b=c  hello"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("POST", "https://api.example.com/v1/a?b=c", "hello")
			r.Header.Set("Accept", "text/plain")
			sent, body, _, err := run(t, c.script, r, answer("", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := sent.Method + " " + sent.URL.RequestURI() + " " + sent.Header.Get("X-A") + " " + body; got != c.want {
				t.Errorf("the server got %q, want %q", got, c.want)
			}
			if int(sent.ContentLength) != len(body) {
				t.Errorf("the length is %d, of %q", sent.ContentLength, body)
			}
		})
	}
}

func TestResponse(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"status":  {`local res = req:send() assert(res.status == 200) res.status = 404`, "404 a,b plain"},
		"header":  {`local res = req:send() res:setHeader("x-a", res:header("x-a") .. "!")`, "200 b! plain"},
		"kept":    {`local res = req:send() local h = res.headers h["x-b"] = "1" res.headers = h`, "200 a,b plain"},
		"removed": {`local res = req:send() res:setHeader("x-a", nil)`, "200  plain"},
		"body":    {`local res = req:send() res:setBody(res:body():text() .. "er")`, "200 a,b plainer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, resp, err := run(t, c.script, request("GET", "https://a.example/", ""), answer("X-A: a\nX-A: b\nContent-Length: 5", "plain"))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join([]string{http.StatusText(resp.StatusCode), strings.Join(resp.Header.Values("X-A"), ","), text4(t, resp)}, " ")
			status, rest, _ := strings.Cut(c.want, " ")
			if want := map[string]string{"200": "OK", "404": "Not Found"}[status] + " " + rest; got != want {
				t.Errorf("the client got %q, want %q", got, want)
			}
		})
	}
}

// A body that no script asks for is neither read nor kept.
func TestBodiesStream(t *testing.T) {
	up, upEnd := io.Pipe()
	r := request("POST", "https://a.example/", "")
	r.Body, r.ContentLength = up, -1
	down, downEnd := io.Pipe()
	resp, err := compile(t, `req:setHeader("x-a", "1") local res = req:send() res:setHeader("x-b", "2")`).Exchange(r, server(func(r *http.Request) (*http.Response, error) {
		if r.Body != up || r.ContentLength != -1 {
			t.Error("the body of the request is another one")
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: down, ContentLength: -1}, nil
	}))
	if err != nil || resp.Body != down || resp.Header.Get("X-B") != "2" {
		t.Error(resp, err)
	}
	_, _ = upEnd.Close(), downEnd.Close()
}

func TestDeny(t *testing.T) {
	for script, reason := range map[string]string{
		`req:deny()`:                             "the script test.lua refuses this request",
		`req:deny("not on Sundays")`:             "not on Sundays",
		`req:deny("first") pcall(req.send, req)`: "first",
	} {
		sent, _, resp, err := run(t, script, request("GET", "https://a.example/", ""), answer("", ""))
		var r *intercept.Refusal
		if !errors.As(err, &r) || r.Reason != reason || r.Status != 0 || resp != nil || sent != nil {
			t.Errorf("%s: %v, %v", script, err, sent)
		}
	}
}

func TestServerFails(t *testing.T) {
	broken := errors.New("broken")
	_, _, _, err := run(t, `pcall(req.send, req)`, request("GET", "https://a.example/", ""), func(*http.Request) (*http.Response, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestChain(t *testing.T) {
	first, second := compile(t, `req:setHeader("x-a", "1") local res = req:send() res:setBody(res:body():text() .. "1")`), compile(t, `req:setHeader("x-a", req:header("x-a") .. "2") local res = req:send() res:setBody(res:body():text() .. "2")`)
	resp, err := first.Exchange(request("GET", "https://a.example/", ""), server(func(r *http.Request) (*http.Response, error) {
		return second.Exchange(r, server(func(r *http.Request) (*http.Response, error) { return answer("", r.Header.Get("X-A")+" ")(r) }))
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := text4(t, resp); got != "12 21" {
		t.Errorf("the client got %q", got)
	}
}

func TestWants(t *testing.T) {
	s := &Script{Hosts: []string{"a.example:443", "*.b.example", "[::1]:443"}}
	for host, want := range map[string]bool{"a.example": true, "x.b.example": true, "b.example": false, "xb.example": false, "c.example": false, "::1": true} {
		if s.Wants(host, 443) != want {
			t.Error(host)
		}
	}
	if s.Wants("a.example", 80) || !(&Script{}).Wants("any.example", 1) {
		t.Error("ports")
	}
}

// fails runs a script that must be refused, and the request with it.
func fails(t *testing.T, source string) *intercept.Refusal {
	t.Helper()
	sent, _, resp, err := run(t, source, request("POST", "https://a.example/", "hello"), answer("", "plain"))
	var r *intercept.Refusal
	if !errors.As(err, &r) || r.Status != http.StatusBadGateway || resp != nil || sent != nil {
		t.Fatalf("%v, %v, %v", err, resp, sent)
	}
	return r
}

func TestErrorsNameTheLine(t *testing.T) {
	for source, want := range map[string]string{
		"local a = 1\nerror('no')":                      "test.lua, line 2",
		"\n\nlocal x = nil .. 'x'":                      "test.lua, line 3",
		"\nerror({})":                                   "test.lua, line 2",
		"local function f()\n  error('no')\nend\n\nf()": "test.lua, line 2",
		"\nreq:setHeader('a b', 'c')":                   "test.lua, line 2",
		"\nlocal t = setmetatable({}, {__index = function() error('x') end})\nlocal y = t.z": "test.lua, line",
		"\nwhile true do end": "test.lua",
	} {
		if r := fails(t, source); !strings.Contains(r.Reason, want) || strings.Contains(r.Reason, "no'") {
			t.Errorf("%q: %s", source, r.Reason)
		}
	}
	if _, err := Compile("test.lua", []byte("\nlocal = 1")); err == nil || !strings.Contains(err.Error(), "test.lua:2:") {
		t.Error(err)
	}
}

// What scripts do to use up the host, or to get past what stops them.
var hostile = map[string]string{
	"loop":                 `while true do end`,
	"goto":                 `::a:: goto a`,
	"loop in pcall":        `while true do pcall(function() while true do end end) end`,
	"loop in xpcall":       `while true do xpcall(function() while true do end end, function() while true do end end) end`,
	"loop in a handler":    `xpcall(error, function() while true do end end)`,
	"loop in a coroutine":  `coroutine.wrap(function() while true do end end)()`,
	"leaked coroutines":    `for i = 1, 1e6 do coroutine.resume(coroutine.create(function() coroutine.yield() end)) end`,
	"loop at close":        `local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end`,
	"loop after the loop":  `for i in function() while true do end end, nil, nil, setmetatable({}, {__close = function() while true do end end}) do end`,
	"late close":           `local m = {} local t = setmetatable({}, m) m.__close = function() while true do end end local x <close> = t`,
	"finalizer":            `setmetatable({}, {__gc = function() while true do end end})`,
	"recursion":            `local function f() return 1 + f() end f()`,
	"endless arguments":    `local function f(...) return f(1, ...) end f()`,
	"recursion in pcall":   `local function f() assert(pcall(f)) end f()`,
	"recursion in gsub":    `local function f() string.gsub("x", ".", f) end f()`,
	"recursion in sort":    `local function f() table.sort({1, 2}, f) end f()`,
	"__index":              `local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x`,
	"__newindex":           `local t = setmetatable({}, {__newindex = function(t, k, v) t[k] = v end}) t.x = 1`,
	"__concat":             `local t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return t .. t`,
	"__eq":                 `local m = {__eq = function(a, b) return a == b end} return setmetatable({}, m) == setmetatable({}, m)`,
	"__lt":                 `local m = {__lt = function(a, b) return a < b end} return setmetatable({}, m) < setmetatable({}, m)`,
	"__add":                `local t = setmetatable({}, {__add = function(a, b) return a + b end}) return t + t`,
	"__len":                `local t = setmetatable({}, {__len = function(t) return #t end}) return #t`,
	"__tostring":           `local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) tostring(t)`,
	"__pairs":              `local t = setmetatable({}, {__pairs = function(t) return pairs(t) end}) for k in pairs(t) do end`,
	"__call of itself":     `local t = {} setmetatable(t, {__call = t}) t()`,
	"late __call":          `local m = {} local t = setmetatable({}, m) m.__call = t t()`,
	"__call by rawset":     `local m = {__call = function() end} local t = setmetatable({}, m) rawset(getmetatable(t), "__call", t) t() while true do end`,
	"chain of __index":     `local t = {} for i = 1, 1e5 do t = setmetatable({}, {__index = t}) end return t.x .. ""`,
	"the string metatable": `getmetatable("").__index = function(s, k) return s[k] end return ("").x`,
	"the string library":   `setmetatable(string, {__index = function(t, k) return ("")[k] end}) return ("").x`,
	"the array metatable":  `req:setBody("[]") getmetatable(req:body():json()).__index = nil`,
	"string.rep":           `string.rep("x", 1 << 40)`,
	"string.rep overflows": `string.rep("xxxxxxxx", 1 << 61)`,
	"string.rep with sep":  `string.rep("x", 1 << 30, ("y"):rep(1000))`,
	"growth":               `local s = "x" while true do s = s .. s end`,
	"many strings":         `local t = {} for i = 1, 1e6 do t[i] = ("x"):rep(1000) end`,
	"globals":              `while true do _G[#_G + 1] = {} end`,
	"concat":               `local t = {} for i = 1, 1e5 do t[i] = ("x"):rep(1000) end table.concat(t)`,
	"table growth":         `local i = 0 local t = {} while true do i = i + 1 t[i] = i end`,
	"nested tables":        `local t = {} while true do t = {t} end`,
	"closures":             `local f = function() end while true do local g = f f = function() return g end end`,
	"move":                 `table.move({}, 1, 1 << 40, 2)`,
	"unpack":               `table.unpack({}, 1, 1e9)`,
	"insert":               `table.insert(setmetatable({}, {__len = function() return 1 << 40 end}), 1, 1)`,
	"sort":                 `table.sort({3, 2, 1}, function() while true do end end)`,
	"pattern":              `string.find(("a"):rep(1e5), (".-"):rep(200) .. "b")`,
	"pattern of optionals": `while true do string.match(("a"):rep(3e4), ("a?"):rep(3e3) .. ("a"):rep(3e3)) end`,
	"balanced pattern":     `string.gsub(("("):rep(2e5), "%b()", "")`,
	"deep pattern":         `string.find("x", ("("):rep(1e5))`,
	"plain find":           `local a, b = ("x"):rep(4e5), ("x"):rep(2e5) .. "y" while true do a:find(b, 1, true) end`,
	"gsub":                 `string.gsub(("x"):rep(1e5), ".", ("y"):rep(1e5))`,
	"gmatch":               `while true do for w in ("x"):gmatch("") do end end`,
	"format":               `string.format("%99999999d", 1)`,
	"long format":          `string.format(("%99d"):rep(1e5), 1)`,
	"pack":                 `string.pack("c2000000000", "x")`,
	"long comparisons":     `local a, b = ("x"):rep(4e6), ("x"):rep(4e6) while true do pcall(function() for i = 1, 1e9 do local c = a == b end end) end`,
	"sparse next":          `local t = {} for i = 1, 1e4 do t["k" .. i] = i end for i = 1, 1e4 do t["k" .. i] = nil end while true do next(t) end`,
	"error object":         `error(setmetatable({}, {__tostring = function() while true do end end}))`,
	"deep error object":    `local t = {} for i = 1, 1e5 do t = {t} end error(t)`,
	"long error":           `error(("x"):rep(1e6))`,
	"logs":                 `while true do log(("x"):rep(1000)) end`,
	"log of an object":     `log(setmetatable({}, {__tostring = function() while true do end end}))`,
	"JSON of itself":       `local t = {} t.t = t req:setBody(t)`,
	"deep JSON":            `req:setBody(("["):rep(1e5)) req:body():json()`,
	"wide JSON":            `req:setBody("[" .. ("0,"):rep(3e6) .. "0]") req:body():json()`,
	"long JSON":            `local t = {} for i = 1, 1e5 do t[i] = ("\1"):rep(1) end local u = {} for i = 1, 1e4 do u[i] = t end req:setBody(u)`,
	"JSON with both":       `req:setBody({1, a = 2})`,
	"large body":           `req:setBody(("x"):rep(9e6))`,
	"body of itself":       `while true do req:setBody(req:body():text() .. req:body():text()) end`,
	"methods":              `local t = {} while true do t[#t + 1] = req.header end`,
	"headers":              `for i = 1, 1e7 do req:setHeader("x-" .. i, ("x"):rep(6e4)) end`,
	"arguments":            `req.header()`,
	"wrong arguments":      `req:setHeader({}, {})`,
	"no arguments":         `req:setBody(function() end)`,
	"early each":           `req:each(function() end)`,
}

func TestHostileScripts(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, source := range hostile {
		t.Run(name, func(t *testing.T) { fails(t, source) })
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines are left", n-before)
	}
}

// A script that fails after it sent fails the exchange, and closes what came.
func TestFailsAfterSend(t *testing.T) {
	var closed bool
	resp, err := compile(t, `req:send() error("x")`).Exchange(request("GET", "https://a.example/", ""), server(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: closer{&closed}}, nil
	}))
	if err == nil || resp != nil || !closed {
		t.Error(resp, err, closed)
	}
}

type closer struct{ closed *bool }

func (c closer) Read([]byte) (int, error) { return 0, io.EOF }
func (c closer) Close() error             { *c.closed = true; return nil }

func TestLargeBody(t *testing.T) {
	for _, script := range []string{`req:body()`, `req:send():body()`} {
		_, err := compile(t, script).Exchange(request("POST", "https://a.example/", strings.Repeat("x", maxBody+1)), answer("", strings.Repeat("x", maxBody+1)))
		if err == nil {
			t.Error(script)
		}
	}
}

// What a script remembers is gone with the exchange, also for this process.
func TestNothingStays(t *testing.T) {
	s := compile(t, `assert(seen == nil) seen = ("x"):rep(1e6) string.rep = nil req:body():text()`)
	for range 300 {
		if _, err := s.Exchange(request("POST", "https://a.example/", "x"), answer("", "")); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 100<<20 {
		t.Errorf("%d MB are in use", m.HeapAlloc>>20)
	}
}

// Limits count what a script does, before and after it waited.
func TestLimitsOutlastWaiting(t *testing.T) {
	for _, source := range []string{
		`for i = 1, 3e6 do end req:send() for i = 1, 1e9 do end`,
		`local a = ("x"):rep(2e7) req:send() local b = ("y"):rep(2e7)`,
		`req:send() local function f() return 1 + f() end f()`,
	} {
		if _, _, resp, err := run(t, source, request("GET", "https://a.example/", ""), answer("", "")); err == nil || resp != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func BenchmarkNothing(b *testing.B) {
	s := compile(b, `req:setHeader("x-a", "1")`)
	r, to := request("GET", "https://a.example/", ""), answer("", "")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Exchange(r, to); err != nil {
			b.Fatal(err)
		}
	}
}

// A script is one stage for many requests at once, which share nothing that they can change.
func TestAtOnce(t *testing.T) {
	s := compile(t, `assert(string.rep and not string.own) string.own = req.path string.rep = nil req:setBody({path = req.path}) local res = req:send() res:setBody(string.own)`)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				path := fmt.Sprintf("/%d/%d", i, j)
				resp, err := s.Exchange(request("POST", "https://a.example"+path, "x"), answer("", ""))
				if err != nil {
					t.Error(err)
					return
				}
				if data, err := io.ReadAll(resp.Body); string(data) != path || err != nil {
					t.Errorf("%q, want %q, %v", data, path, err)
				}
			}
		})
	}
	all.Wait()
}
