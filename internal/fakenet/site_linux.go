package fakenet

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// Site has a server of the caller's own answer over TLS for a name.
func (w *World) Site(name string, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sites == nil {
		w.sites = map[string]http.Handler{}
	}
	w.sites[name] = h
}

func (w *World) site(name string) http.Handler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sites[name]
}

// serveSite serves one connection, until it is closed.
func serveSite(c net.Conn, h http.Handler) {
	l := &single{conn: c, closed: make(chan struct{})}
	s := http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			l.Close()
		}
	}}
	_ = s.Serve(l)
}

// single is a listener that accepts one connection.
type single struct {
	conn   net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *single) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *single) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *single) Addr() net.Addr { return &net.TCPAddr{} }
