package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
)

// A Server ends TLS connections of programs and begins new ones to their servers. The two sides
// speak HTTP/2 or HTTP/1 as the program chose; net/http carries requests and responses, which
// stream in both directions.
type Server struct {
	Authority *Authority
	Roots     *x509.CertPool // that servers are verified by; nil: the host's
	Stages    []Stage        // the first one sees requests first
}

// A Target is where a connection leads, and what may be said to it.
type Target struct {
	Host string // canonical, a name or an address; the server must prove to be it
	Port uint16
	// Dial connects to the server. An error that is a *[Refusal] is told to the program.
	Dial func(context.Context) (net.Conn, error)
	// Permit decides about a request, whose RequestURI has the path as it will be sent. done is
	// called when the request was answered, and the connection that it may have become has ended.
	Permit func(*http.Request) (done func(), refused *Refusal)
}

// ErrUntrusted says that a program does not trust the sandbox's authority.
var ErrUntrusted = errors.New("the program does not trust the certificates of this sandbox")

const (
	handshakePatience = 30 * time.Second
	headPatience      = 30 * time.Second
	idlePatience      = 5 * time.Minute
	maxHead           = 64 << 10
)

// Serve speaks TLS on a connection of a program until it ends. The caller has seen that its
// ClientHello names the target's host.
func (s *Server) Serve(ctx context.Context, c net.Conn, to Target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &oneConn{closed: make(chan struct{})}
	inner := tls.Server(closing{c, l}, &tls.Config{
		NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.Authority.certificate(to.Host) },
	})
	if err := shake(ctx, inner); err != nil {
		_ = inner.Close()
		return err
	}
	x := &exchange{Server: s, to: to}
	l.conn = inner
	isH2 := inner.ConnectionState().NegotiatedProtocol == "h2"
	if !isH2 {
		x.strict = newStrict(inner)
		l.conn = x.strict
	}
	upstream := x.transport(isH2)
	defer upstream.CloseIdleConnections()
	x.proxy = x.reverse(upstream)
	server := &http.Server{
		Handler: x, MaxHeaderBytes: maxHead, ReadHeaderTimeout: headPatience, IdleTimeout: idlePatience,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: 100, MaxReceiveBufferPerConnection: 128 << 10, MaxReceiveBufferPerStream: 64 << 10},
		DisableGeneralOptionsHandler: true, ErrorLog: quiet, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() { _ = server.Serve(l) }()
	select {
	case <-l.closed:
	case <-ctx.Done():
	}
	cancel()
	_ = server.Close()
	_ = inner.NetConn().Close()
	x.end()
	return nil
}

// shake does the handshake with a program.
func shake(ctx context.Context, c *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshakePatience)
	defer cancel()
	err := c.HandshakeContext(ctx)
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" {
		return err
	}
	// The alerts have no exported type.
	for _, alert := range []string{"bad certificate", "unknown certificate", "certificate authority", "unsupported certificate"} {
		if strings.Contains(remote.Error(), alert) {
			return ErrUntrusted
		}
	}
	return err
}

// quiet is for what programs and servers do wrong, which is no news for the host.
var quiet = log.New(io.Discard, "", 0)

// An exchange is a connection of a program and those that were made for it.
type exchange struct {
	*Server
	to      Target
	strict  *strictConn // nil for HTTP/2
	proxy   *httputil.ReverseProxy
	running sync.WaitGroup // requests
	framed  atomic.Bool    // the server speaks HTTP/2

	mu    sync.Mutex
	ended bool
}

// begin counts a request. It says no when the connection has ended.
func (x *exchange) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		x.running.Add(1)
	}
	return !x.ended
}

// end waits for the requests.
func (x *exchange) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.running.Wait()
}

// transport makes connections to the server, of the kind that the program chose.
func (x *exchange) transport(isH2 bool) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return x.to.Dial(ctx) },
		TLSClientConfig: &tls.Config{RootCAs: x.Roots, ServerName: x.to.Host, MinVersion: tls.VersionTLS12,
			VerifyConnection: func(s tls.ConnectionState) error {
				x.framed.Store(s.NegotiatedProtocol == "h2")
				return nil
			}},
		MaxConnsPerHost: 32, MaxResponseHeaderBytes: 4 * maxHead,
		// Without it there is HTTP/1 only, as DialContext is ours.
		ForceAttemptHTTP2:  isH2,
		DisableCompression: true, TLSHandshakeTimeout: handshakePatience, ExpectContinueTimeout: time.Second,
		IdleConnTimeout: idlePatience, ReadBufferSize: 32 << 10, WriteBufferSize: 32 << 10,
	}
}

func (x *exchange) reverse(last http.RoundTripper) *httputil.ReverseProxy {
	for i := len(x.Stages) - 1; i >= 0; i-- {
		if x.Stages[i].Wants(x.to.Host, x.to.Port) {
			last = step{x.Stages[i], last}
		}
	}
	return &httputil.ReverseProxy{
		Transport: last, FlushInterval: -1, BufferPool: buffers, ErrorLog: quiet,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "https", authority(x.to.Host, x.to.Port)
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			p.Out.Trailer = p.In.Trailer // which is filled when the body was read
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if v, ok := p.In.Header[name]; ok {
					p.Out.Header[name] = v
				}
			}
			// Some servers do not understand chunks. Nothing shall follow them.
			p.Out.Close = p.In.ContentLength < 0 && !x.framed.Load()
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusSwitchingProtocols && x.strict != nil && r.Request.Header.Get("Upgrade") != "" {
				x.strict.raw.Store(true)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { x.fail(w, err) },
	}
}

// authority is how a request names a server.
func authority(host string, port uint16) string {
	if port == 443 {
		if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// step is one stage of the chain.
type step struct {
	stage Stage
	next  http.RoundTripper
}

func (s step) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.stage.Exchange(r, s.next)
	if err != nil && resp != nil {
		_ = resp.Body.Close()
		resp = nil
	}
	return resp, err
}

// ServeHTTP decides about one request, and has it sent.
func (x *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !x.begin() {
		return
	}
	defer x.running.Done()
	if x.strict != nil && r.RequestURI == x.strict.place {
		x.answer(w, &Refusal{Status: x.strict.bad.Status, Rule: builtin, Reason: x.strict.bad.Msg})
		return
	}
	refused := check(r, x.to.Host, x.to.Port)
	if refused == nil {
		var done func()
		if done, refused = x.to.Permit(r); refused == nil {
			defer done()
		}
	}
	if refused != nil {
		if x.strict != nil {
			w.Header().Set("Connection", "close") // a body may follow that nobody reads
		}
		x.answer(w, refused)
		return
	}
	if !sniff.MayUpgrade(strings.Join(r.Header.Values("Upgrade"), ", ")) {
		r.Header.Del("Upgrade")
		r.Header.Del("Http2-Settings")
	}
	_ = http.NewResponseController(w).EnableFullDuplex()      // which HTTP/2 is anyway
	w.Header()["Content-Type"], w.Header()["Date"] = nil, nil // the server's, or none
	x.proxy.ServeHTTP(w, r)
}

// fail tells a program that its request got no response.
func (x *exchange) fail(w http.ResponseWriter, err error) {
	var refused *Refusal
	if !errors.As(err, &refused) {
		refused = &Refusal{Status: http.StatusBadGateway, Reason: "the server gave no response"}
		var bad *tls.CertificateVerificationError
		if errors.As(err, &bad) {
			refused.Reason = "the server has not proved to be " + x.to.Host + ": " + bad.Error()
		}
	}
	x.answer(w, refused)
}

// answer tells a program of a refusal.
func (x *exchange) answer(w http.ResponseWriter, r *Refusal) {
	status := r.Status
	if status == 0 {
		status = http.StatusForbidden
	}
	what := map[int]string{http.StatusForbidden: "denied", http.StatusMisdirectedRequest: "denied", http.StatusBadGateway: "unreachable"}[status]
	if what == "" {
		what = "bad request"
	}
	text, _ := json.Marshal(struct {
		Error  string `json:"error"`
		Host   string `json:"host"`
		Port   uint16 `json:"port"`
		Rule   string `json:"rule,omitempty"`
		Reason string `json:"reason"`
		Allow  string `json:"allow,omitempty"`
		Help   string `json:"help"`
	}{what, x.to.Host, x.to.Port, r.Rule, r.Reason, r.Allow, "http://coffer.internal/"})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// closing is the connection below TLS, whose end is that of the listener.
type closing struct {
	net.Conn
	l *oneConn
}

func (c closing) Close() error {
	defer c.l.Close()
	return c.Conn.Close()
}

// pool lends buffers for bodies.
type pool struct{ sync.Pool }

var buffers = &pool{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}}

func (p *pool) Get() []byte  { return *p.Pool.Get().(*[]byte) }
func (p *pool) Put(b []byte) { p.Pool.Put(&b) }
