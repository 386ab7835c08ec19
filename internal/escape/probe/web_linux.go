package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"
)

// web are attempts to have a request answered that should not be. What they meet is the
// status.
var web = map[string]func([]string) error{
	"get":    get,
	"raw":    func(a []string) error { return rawRequest(a, 0) },
	"inner":  innerRequest,
	"pause":  func(a []string) error { return rawRequest(a[1:], number(a[0])) },
	"second": second,
	"follow": follow,
	"tunnel": tunnel,
	"rebind": rebind,
	"crowd":  crowd,
	"slow":   slow,
	"upload": upload,
}

// parse reads a URL, and gives its host a port.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err == nil && u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "80")
	}
	return u, err
}

// hostOf is what a client writes into Host.
func hostOf(u *url.URL) string { return strings.TrimSuffix(u.Host, ":80") }

// get asks for a URL, with another Host if there is a second argument.
func get(a []string) error {
	u, err := parse(a[0])
	if err != nil {
		return err
	}
	host := hostOf(u)
	if len(a) > 1 {
		host = a[1]
	}
	c, err := reach("tcp", u.Host)
	if err != nil {
		return err
	}
	defer c.Close()
	return retrieve(c, u, host)
}

func retrieve(c net.Conn, u *url.URL, host string) error {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", u.RequestURI(), host); err != nil {
		return plainly(err)
	}
	_, err := response(bufio.NewReader(c))
	return err
}

// response reads one. A refusal has to say which rule decided, in JSON.
func response(r *bufio.Reader) (*http.Response, error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, plainly(err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, plainly(err)
	}
	resp.Body.Close()
	if resp.StatusCode < 400 {
		resp.Body = io.NopCloser(strings.NewReader(string(body)))
		return resp, nil
	}
	var why struct{ Error, Rule, Reason string }
	if json.Unmarshal(body, &why) != nil || why.Error == "" || why.Reason == "" || resp.StatusCode == 403 && why.Rule == "" {
		note = string(body)
		return resp, fact(fmt.Sprint(resp.StatusCode, "-UNEXPLAINED"))
	}
	note = why.Rule + ": " + why.Reason
	return resp, fact(fmt.Sprint(resp.StatusCode))
}

// rawRequest sends bytes, written as in a URL, and reads one response. After the first
// few it may make a pause.
func rawRequest(a []string, few int) error {
	text, err := url.PathUnescape(a[1])
	if err != nil {
		return err
	}
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	if few > 0 {
		if _, err := io.WriteString(c, text[:few]); err != nil {
			return plainly(err)
		}
		time.Sleep(300 * time.Millisecond)
	}
	if _, err := io.WriteString(c, text[few:]); err != nil {
		return plainly(err)
	}
	_, err = response(bufio.NewReader(c))
	return err
}

// innerRequest says something over TLS, whoever the server is: host:port, name, text.
func innerRequest(a []string) error {
	text, err := url.PathUnescape(a[2])
	if err != nil {
		return err
	}
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	t := tls.Client(c, &tls.Config{ServerName: a[1], InsecureSkipVerify: true})
	if _, err := io.WriteString(t, text); err != nil {
		return alerted(err)
	}
	_, err = response(bufio.NewReader(t))
	return err
}

// second makes two requests on one connection, and meets what the second one does:
// host:port, first host, second host, word. With "pipelined" it does not wait between.
func second(a []string) error {
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	one := "GET /first HTTP/1.1\r\nHost: " + a[1] + "\r\n\r\n"
	two := "GET /" + a[3] + " HTTP/1.1\r\nHost: " + a[2] + "\r\n\r\n"
	if len(a) > 4 {
		one, two = one+two, ""
	}
	if _, err := io.WriteString(c, one); err != nil {
		return plainly(err)
	}
	if _, err := response(r); err != nil {
		return fmt.Errorf("the first request: %w", err)
	}
	if _, err := io.WriteString(c, two); err != nil {
		return plainly(err)
	}
	_, err = response(r)
	return err
}

// follow asks for a URL and goes where it is sent.
func follow(a []string) error {
	u, err := parse(a[0])
	if err != nil {
		return err
	}
	c, err := reach("tcp", u.Host)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", u.RequestURI(), hostOf(u)); err != nil {
		return plainly(err)
	}
	resp, err := response(bufio.NewReader(c))
	if err != nil {
		return err
	}
	to := resp.Header.Get("Location")
	if to == "" {
		return fact("NOT-SENT-ON")
	}
	return get([]string{to})
}

// tunnel asks an HTTP proxy for a way to somebody, and says a word to him: proxy,
// target, word.
func tunnel(a []string) error {
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", a[1], a[1])
	line, err := r.Peek(12)
	if err != nil {
		return plainly(err)
	}
	if !strings.HasSuffix(string(line), " 200") {
		_, err := response(r)
		return err
	}
	for text := ""; text != "\r\n"; {
		if text, err = r.ReadString('\n'); err != nil {
			return plainly(err)
		}
	}
	return exchange(struct {
		io.Reader
		io.Writer
	}{r, c}, a[2])
}

// rebind asks for a URL over and over, as a client does that looks first where a name
// leads, until it is answered from an address that is not public.
func rebind(a []string) error {
	u, err := parse(a[0])
	if err != nil {
		return err
	}
	for range 4 {
		if _, err := net.LookupHost(u.Hostname()); err != nil {
			return plainly(err)
		}
		c, err := reach("tcp", u.Host)
		if err != nil {
			return err
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", u.RequestURI(), hostOf(u))
		resp, err := response(bufio.NewReader(c))
		c.Close()
		if err != nil {
			return err
		}
		var said struct{ Server string }
		if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
			return err
		}
		if at, err := netip.ParseAddrPort(said.Server); err == nil && (at.Addr().IsPrivate() || at.Addr().IsLinkLocalUnicast() || at.Addr().IsLoopback()) {
			return nil
		}
	}
	return fact("ALWAYS-PUBLIC")
}

// crowd makes so many requests at once, each to a name of its own, and says how often it
// met what: number, domain.
func crowd(a []string) error {
	var mu sync.Mutex
	met := map[string]int{}
	var all sync.WaitGroup
	var hosts []string
	for n := range number(a[0]) {
		host := fmt.Sprintf("n%d.%s", n, a[1])
		addrs, err := net.LookupHost(host)
		if err != nil {
			return plainly(err)
		}
		hosts = append(hosts, addrs[0])
	}
	for n, addr := range hosts {
		all.Go(func() {
			got := "ECONNRESET" // what is said too late is reset, and may be said again
			for tries := 0; tries < 4 && got == "ECONNRESET"; tries++ {
				got = wall(get([]string{"http://" + net.JoinHostPort(addr, "80") + "/", fmt.Sprintf("n%d.%s", n, a[1])}))
			}
			mu.Lock()
			defer mu.Unlock()
			met[got]++
		})
	}
	all.Wait()
	note = fmt.Sprint(met)
	if met["403"] == 0 {
		return nil
	}
	return fact(fmt.Sprintf("403x%d", met["403"]))
}

// slow opens connections on which requests begin and do not go on, and others whose
// answers nobody reads. When all are open it prints a line and waits for its input to
// end: number, host:port.
func slow(a []string) error {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	host, _, _ := net.SplitHostPort(a[1])
	for n := range number(a[0]) {
		c, err := reach("tcp", a[1])
		if err != nil {
			return err
		}
		held = append(held, c)
		c.SetDeadline(time.Time{})
		text := "GET /big?100000000 HTTP/1.1\r\nHost: " + host + "\r\n"
		if n%2 == 0 {
			text += "\r\n"
		}
		if _, err := io.WriteString(c, text); err != nil {
			return err
		}
	}
	fmt.Println("holding")
	return untilInputEnds()
}

// upload sends so many bytes, and wants an answer: URL, number.
func upload(a []string) error {
	u, err := parse(a[0])
	if err != nil {
		return err
	}
	c, err := reach("tcp", u.Host)
	if err != nil {
		return err
	}
	defer c.Close()
	n := number(a[1])
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", u.RequestURI(), hostOf(u), n)
	if _, err := io.WriteString(c, strings.Repeat("x", n)); err != nil {
		return plainly(err)
	}
	_, err = response(bufio.NewReader(c))
	return err
}
