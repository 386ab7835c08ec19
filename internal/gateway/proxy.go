package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
)

// environmentProxy reads the host's proxy settings, once. HTTP_PROXY is for port 80 and
// HTTPS_PROXY for 443 and 8443; ALL_PROXY is for all ports, where those two say nothing.
// NO_PROXY holds for all of them. Without any it is nil.
func environmentProxy() func(host string, port uint16) *url.URL {
	env := httpproxy.FromEnvironment()
	all := os.Getenv("ALL_PROXY")
	if all == "" {
		all = os.Getenv("all_proxy")
	}
	if env.HTTPProxy == "" && env.HTTPSProxy == "" && all == "" {
		return nil
	}
	web := env.ProxyFunc()
	every := (&httpproxy.Config{HTTPProxy: all, NoProxy: env.NoProxy}).ProxyFunc()
	return func(host string, port uint16) *url.URL {
		to := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}
		var p *url.URL
		switch port {
		case 80:
			p, _ = web(to)
		case 443, 8443:
			p, _ = web(&url.URL{Scheme: "https", Host: to.Host})
		}
		if p == nil {
			p, _ = every(to)
		}
		return p
	}
}

// maxProxyHead bounds what a proxy may answer to CONNECT.
const maxProxyHead = 16 << 10

// dialProxy connects to host:port by a proxy. No error names the proxy: its address may
// hold a password, and programs inside see the error.
func (g *Gateway) dialProxy(ctx context.Context, p *url.URL, host string, port uint16) (net.Conn, error) {
	to := net.JoinHostPort(host, strconv.Itoa(int(port)))
	var c net.Conn
	var err error
	switch p.Scheme {
	case "http", "https":
		c, err = g.dialConnect(ctx, p, to)
	case "socks5", "socks5h":
		c, err = g.dialSocks(ctx, p, to)
	default:
		return nil, errors.New("the host's proxy is of an unknown kind; http, https and socks5 can be used")
	}
	if err != nil {
		return nil, fmt.Errorf("the host's proxy: %w", plainDial(err))
	}
	return c, nil
}

// reachProxy connects to the proxy itself. The user has chosen it, so its address is
// not vetted.
func (g *Gateway) reachProxy(ctx context.Context, p *url.URL) (net.Conn, error) {
	port := map[string]string{"http": "80", "https": "443"}[p.Scheme]
	if port == "" {
		port = "1080"
	}
	if p.Port() != "" {
		port = p.Port()
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, errors.New("its port is not a number")
	}
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(p.Hostname()); err == nil {
		addrs = []netip.Addr{a.Unmap()}
	} else if addrs, err = g.cfg.Resolve(ctx, p.Hostname()); err != nil {
		return nil, errors.New("its name cannot be resolved")
	}
	if len(addrs) == 0 {
		return nil, errors.New("its name has no address")
	}
	c, _, err := g.race(ctx, "tcp", interleave(addrs[:min(len(addrs), maxCandidates)]), uint16(n))
	return c, err
}

// dialConnect asks an HTTP proxy for a tunnel.
func (g *Gateway) dialConnect(ctx context.Context, p *url.URL, to string) (net.Conn, error) {
	c, err := g.reachProxy(ctx, p)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	if p.Scheme == "https" {
		t := tls.Client(c, &tls.Config{ServerName: p.Hostname(), MinVersion: tls.VersionTLS12, RootCAs: g.roots})
		if err := t.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, err
		}
		c = t
	}
	c, err = tunnel(c, p, to)
	if !stop() && err == nil {
		_ = c.Close()
		return nil, context.Cause(ctx)
	}
	return c, err
}

// tunnel speaks CONNECT on a connection to a proxy.
func tunnel(c net.Conn, p *url.URL, to string) (net.Conn, error) {
	request := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if p.User != nil {
		password, _ := p.User.Password()
		word := base64.StdEncoding.EncodeToString([]byte(p.User.Username() + ":" + password))
		request += "Proxy-Authorization: Basic " + word + "\r\n"
	}
	fail := func(err error) (net.Conn, error) {
		_ = c.Close()
		return nil, err
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		return fail(err)
	}
	r := bufio.NewReader(io.LimitReader(c, maxProxyHead))
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fail(errors.New("it does not answer as a proxy does"))
	}
	if resp.StatusCode/100 != 2 {
		return fail(fmt.Errorf("it refuses, with status %d", resp.StatusCode))
	}
	if n := r.Buffered(); n > 0 { // the server has spoken already
		ahead, _ := r.Peek(n)
		return &spoken{c, bytes.Clone(ahead)}, nil
	}
	return c, nil
}

// dialSocks asks a SOCKS 5 proxy for a connection.
func (g *Gateway) dialSocks(ctx context.Context, p *url.URL, to string) (net.Conn, error) {
	var auth *proxy.Auth
	if p.User != nil {
		password, _ := p.User.Password()
		auth = &proxy.Auth{User: p.User.Username(), Password: password}
	}
	r := &reacher{g: g, p: p}
	d, err := proxy.SOCKS5("tcp", p.Host, auth, r)
	if err != nil {
		return nil, err
	}
	if _, err := d.(proxy.ContextDialer).DialContext(ctx, "tcp", to); err != nil {
		return nil, err
	}
	return r.conn, nil // what was returned is a wrapper that cannot end one side only
}

// reacher dials the proxy, whatever it is told to dial, and keeps the connection.
type reacher struct {
	g    *Gateway
	p    *url.URL
	conn net.Conn
}

func (r *reacher) Dial(network, address string) (net.Conn, error) {
	return r.DialContext(context.Background(), network, address)
}

func (r *reacher) DialContext(ctx context.Context, _, _ string) (c net.Conn, err error) {
	r.conn, err = r.g.reachProxy(ctx, r.p)
	return r.conn, err
}

// spoken is a connection of which some bytes were read already.
type spoken struct {
	net.Conn
	ahead []byte
}

func (s *spoken) Read(b []byte) (int, error) {
	if len(s.ahead) > 0 {
		n := copy(b, s.ahead)
		s.ahead = s.ahead[n:]
		return n, nil
	}
	return s.Conn.Read(b)
}

func (s *spoken) CloseWrite() error { return closeWrite(s.Conn) }
