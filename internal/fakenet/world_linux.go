package fakenet

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// A World is the internet of this process.
type World struct {
	Log  *Log
	Zone *Zone
	// CA is the certificate, in PEM, of the authority that every TLS server's
	// certificate is from.
	CA []byte
	// ECH is the list of keys by which a ClientHello can be encrypted for the TLS
	// servers. Its outer name is OuterName.
	ECH []byte

	authority *authority

	mu    sync.Mutex
	sites map[string]http.Handler
}

// service is a kind of server.
type service struct {
	kind    string
	network string
	ports   []int
	serve   func(*World, net.Conn, *entry) // of connections
	answer  func(*World, []byte, *entry) []byte
}

var services = []service{
	{kind: "echo", network: "tcp", ports: []int{7, 7070}, serve: echo},
	{kind: "ssh", network: "tcp", ports: []int{22}, serve: greet("SSH-2.0-fake\r\n")},
	{kind: "mysql", network: "tcp", ports: []int{3306}, serve: greet("\x0a\x00\x00\x00\x0a8.0-fake\x00\n")},
	{kind: "postgres", network: "tcp", ports: []int{5432}, serve: postgres},
	{kind: "http", network: "tcp", ports: []int{80, 8080}, serve: serveHTTP},
	{kind: "tls", network: "tcp", ports: []int{443, 853, 8443}, serve: serveTLS},
	{kind: "proxy", network: "tcp", ports: []int{3128}, serve: serveProxy},
	{kind: "dns", network: "tcp", ports: []int{53}, serve: serveDNS},
	{kind: "dns", network: "udp", ports: []int{53}, answer: answerDNS},
	{kind: "udp", network: "udp", ports: []int{7, 443, 7070}, answer: func(_ *World, b []byte, _ *entry) []byte { return b }},
}

func newWorld() (*World, error) {
	w := &World{Log: &Log{}, Zone: newZone()}
	if err := w.certify(); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	for _, s := range services {
		for _, port := range s.ports {
			start := w.listen
			if s.answer != nil {
				start = w.receive
			}
			if err := start(s, port); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// listen accepts connections to any address.
func (w *World) listen(s service, port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e := w.Log.add(s.kind, c.LocalAddr())
			go func() {
				defer e.end()
				defer c.Close()
				c.SetDeadline(time.Now().Add(5 * time.Minute))
				s.serve(w, c, e)
			}()
		}
	}()
	return nil
}
