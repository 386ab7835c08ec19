package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"golang.org/x/sys/unix"
)

// agent are attempts on Coffer itself: on the guest agent by its socket, and while
// it starts programs as root.
var agent = map[string]func([]string) error{
	"abuse":     abuse,
	"race-init": func([]string) error { return whileRootStarts(catchInit) },
	"race-root": func([]string) error { return whileRootStarts(catchUnconfined) },
}

// abuse breaks the rules of the control protocol in one of several ways. It gets
// through when the agent took all of it; what counts is what is left standing.
func abuse(a []string) error {
	path := guest.Socket
	if len(a) > 1 {
		path = a[1]
	}
	if a[0] == "garbage" {
		for range 50 {
			c, err := net.Dial("unix", path)
			if err != nil {
				return err
			}
			junk := make([]byte, 4096)
			rand.Read(junk)
			c.Write(junk)
			c.Close()
		}
		return nil
	}
	session := wire.Dial(path)
	switch a[0] {
	case "malformed":
		for _, text := range []string{`{`, `[]`, `{"op":7}`, `{"op":"exec"}`, `{"op":"exec","exec":{"argv":[]}}`,
			`{"op":"io"}`, `{"op":"stop"}`, `{"op":"boot"}`, strings.Repeat("[", 100000)} {
			s, err := session.Open()
			if err != nil {
				return err
			}
			s.Write(append([]byte{0, byte(len(text) >> 16), byte(len(text) >> 8), byte(len(text))}, text...))
			s.Close()
		}
	case "oversized":
		s, err := session.Open()
		if err != nil {
			return err
		}
		s.Write(append([]byte{0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte("x"), 1<<16)...))
		s.Close()
	case "replay":
		// Two programs and too many streams with one and the same token.
		e := &wire.Exec{Token: "replay", Argv: [][]byte{[]byte("true")}, Dir: "/"}
		for range 2 {
			if err := say(session, wire.Request{Op: wire.OpExec, Exec: e}); err != nil {
				return err
			}
		}
		for n := range 12 {
			if err := say(session, wire.Request{Op: wire.OpIO, IO: &wire.IO{Token: "replay", FD: n - 4}}); err != nil {
				return err
			}
		}
	case "flood":
		for n := range 3000 {
			if err := say(session, wire.Request{Op: wire.OpIO, IO: &wire.IO{Token: fmt.Sprint("flood", n)}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func say(session wire.Dial, r wire.Request) error {
	s, err := session.Open()
	if err != nil {
		return err
	}
	return wire.WriteMessage(s, r)
}

// rounds is how many programs are started as root while an attempt looks on.
const rounds = 40

// whileRootStarts asks for programs as root and calls look over and over meanwhile,
// until it finds something.
func whileRootStarts(look func() error) error {
	session := wire.Dial(guest.Socket)
	done := make(chan error, 1)
	go func() {
		for range rounds {
			p, err := wire.Start(session, wire.Exec{Root: true, Dir: "/", Argv: [][]byte{[]byte("/bin/true")}})
			if err == nil {
				if err = p.WaitStart(); err == nil {
					_, err = p.Wait()
				}
				p.Close()
			}
			if err != nil {
				done <- fmt.Errorf("start a program as root: %w", err)
				return
			}
		}
		done <- nil
	}()
	looks := 0
	for {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			note = fmt.Sprint(looks, " looks")
			return fact("NEVER-OPEN")
		default:
		}
		looks++
		if look() == nil {
			return nil
		}
	}
}

// catchInit opens the memory of any thread of the first process.
func catchInit() error { return openMemories([]string{"1"}) }

// catchUnconfined opens the memory of a process that still holds CAP_SYS_ADMIN: one
// on its way to root that has not given it up yet.
func catchUnconfined() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid := e.Name()
		if pid == "1" || pid[0] < '0' || pid[0] > '9' {
			continue
		}
		fd, err := unix.Open("/proc/"+pid+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		status, _ := os.ReadFile("/proc/" + pid + "/status")
		unix.Close(fd)
		var eff uint64
		if _, rest, ok := strings.Cut(string(status), "CapEff:\t"); ok {
			fmt.Sscanf(rest, "%x", &eff)
		}
		if eff>>unix.CAP_SYS_ADMIN&1 == 1 {
			note = first(string(status)) + " holds " + fmt.Sprintf("%x", eff)
			return nil
		}
	}
	return fact("NEVER-OPEN")
}
