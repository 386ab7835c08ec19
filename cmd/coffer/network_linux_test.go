package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/fakenet"
	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// Scripts about the network run in a fake internet (see package fakenet). To have a
// client inside, they copy $PEER into the workspace as visit:
//
//	./visit URL   ask for a page and print its status and body; for tcp://HOST:PORT/WORD
//	              and udp://… say a word and print the answer; ping HOST with ping://HOST
//	seen REGEXP   a server of the fake internet was told that (! seen: none was)
//
// $CA is the certificate that TLS servers are known by; with $ECH in its environment visit
// encrypts its ClientHello. Scripts run side by side: each
// says words of its own.

func aboutNetwork(name string) bool {
	return strings.HasPrefix(name, "net") || strings.HasPrefix(name, "policy")
}

func TestNetworkScripts(t *testing.T) {
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		w := fakenet.Enter(t, testbed.Shared(t))
		if w == nil {
			return
		}
		for name, at := range map[string]string{"private.example": "10.20.0.5", "metadata.example": "169.254.169.254", "nowhere.example": ""} {
			w.Zone.Set(name, at)
		}
		ca := filepath.Join(b.Dir, "ca.pem")
		if err := os.WriteFile(ca, w.CA, 0o644); err != nil {
			t.Fatal(err)
		}
		runScripts(t, b, testscript.Params{Files: scripts(t, aboutNetwork), Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"seen": func(ts *testscript.TestScript, not bool, args []string) { seen(ts, w, not, args) },
		}}, "CA="+ca, "ECH="+base64.StdEncoding.EncodeToString(w.ECH))
	})
}

// seen wants something in the log of the fake internet, or not.
func seen(ts *testscript.TestScript, w *fakenet.World, not bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: seen REGEXP")
	}
	ts.Check(w.Log.Flush())
	if w.Log.Seen(args[0]) == not {
		ts.Fatalf("the servers were told:\n%s", w.Log)
	}
}

// On a terminal a refusal is said where the user looks, with what would lift it; a
// question too.
func TestNetworkNotices(t *testing.T) {
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		if fakenet.Enter(t, testbed.Shared(t)) == nil {
			return
		}
		me, err := os.ReadFile("/proc/self/exe")
		if err == nil {
			err = os.WriteFile(filepath.Join(b.Work, "visit"), me, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := onScreen(t, 24, 250, b.Command("run", "--name", "refused", "--", "./visit", "http://20.0.0.1/"))
		s.see("refused 20.0.0.1:80: ")
		s.see("to allow it: coffer run --allow 20.0.0.1:80 …")
		s.end(0)
		// Many of them do not bury what the user reads.
		many := "for i in $(seq 20); do ./visit http://20.0.1.$i/ & done >/dev/null; wait; echo all tried" // at once: they are counted for half a minute
		s = onScreen(t, 24, 250, b.Command("run", "--name", "many", "--", "sh", "-c", many))
		s.see("all tried")
		s.see("more is refused than is shown here")
		s.end(0)
		if n := strings.Count(s.text(), "refused 20.0.1."); n > 10 {
			t.Errorf("%d lines about refusals", n)
		}
		s = onScreen(t, 24, 250, b.Command("run", "--name", "files", "--", "./visit", "http://coffer.internal/request?host=anybody.example", "POST"))
		s.see("a program asks for anybody.example:443, until ")
		s.see(" allow --sandbox ")
		s.end(0)
		s = onScreen(t, 24, 250, b.Command("run", "--name", "asks", "--net", "ask", "--", "./visit", "http://anybody.example/"))
		s.see("anybody.example:80 waits for your answer, until ")
		s.see(" (or deny)")
		number := regexp.MustCompile(`coffer policy answer ([0-9]+) allow`).FindStringSubmatch(s.text())
		if number == nil {
			t.Fatalf("on the screen: %s", s.text())
		}
		if out, err := b.Command("policy", "answer", number[1], "allow", "--sandbox", "asks").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.see("200 ")
		s.end(0)
	})
}

// visit is a client that says in one line what came of it.
func visit() {
	u, err := url.Parse(os.Args[1])
	if err != nil {
		die(err)
	}
	var said string
	switch u.Scheme {
	case "http", "https":
		said, err = visitPage(u)
	case "ping":
		said, err = visitPing(u)
	default:
		said, err = visitStream(u)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "visit:", short(err))
		os.Exit(1)
	}
	fmt.Println(said)
	os.Exit(0)
}

func visitPage(u *url.URL) (string, error) {
	c := http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if keys, err := base64.StdEncoding.DecodeString(os.Getenv("ECH")); err == nil && len(keys) > 0 {
		c.Transport = &http.Transport{TLSClientConfig: &tls.Config{EncryptedClientHelloConfigList: keys}}
	}
	method := http.MethodGet
	if len(os.Args) > 2 {
		method = os.Args[2]
	}
	r, err := http.NewRequest(method, u.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body))), err
}

func visitStream(u *url.URL) (string, error) {
	c, err := net.DialTimeout(u.Scheme, u.Host, time.Minute)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute)) // a user may have to answer first
	if _, err := fmt.Fprint(c, strings.TrimPrefix(u.Path, "/")); err != nil {
		return "", err
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// visitPing sends an echo request, by the kind of socket that needs no rights.
func visitPing(u *url.URL) (string, error) {
	addrs, err := net.LookupIP(u.Hostname())
	if err != nil {
		return "", err
	}
	family, protocol, echo := unix.AF_INET, unix.IPPROTO_ICMP, byte(8)
	var to unix.Sockaddr = &unix.SockaddrInet4{}
	if four := addrs[0].To4(); four != nil {
		to = &unix.SockaddrInet4{Addr: [4]byte(four)}
	} else {
		family, protocol, echo = unix.AF_INET6, unix.IPPROTO_ICMPV6, 128
		to = &unix.SockaddrInet6{Addr: [16]byte(addrs[0])}
	}
	s, err := unix.Socket(family, unix.SOCK_DGRAM, protocol)
	if err != nil {
		return "", fmt.Errorf("no socket for pings: %w", err)
	}
	defer unix.Close(s)
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}); err != nil {
		return "", err
	}
	if err := unix.Connect(s, to); err != nil {
		return "", err
	}
	if _, err := unix.Write(s, append([]byte{echo, 0, 0, 0, 0, 0, 0, 1}, u.Path...)); err != nil {
		return "", err
	}
	b := make([]byte, 256)
	n, err := unix.Read(s, b)
	if err != nil {
		return "", err
	}
	return "pong " + string(b[8:n]), nil
}

// short names the errors that scripts look for.
func short(err error) string {
	var d *net.DNSError
	switch {
	case errors.As(err, &d) && d.IsNotFound:
		return "no such host"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EACCES):
		return "unreachable"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ENETUNREACH):
		return "no network"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	}
	return err.Error()
}
