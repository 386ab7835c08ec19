package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/guest"
	"golang.org/x/sys/unix"
)

// agent are attempts on Coffer itself: on the guest agent by its socket, and while
// it starts programs as root.
var agent = map[string]func([]string) error{
	"abuse":     abuse,
	"race-init": func(a []string) error { return whileRootStarts(a, catchInit) },
	"race-root": func(a []string) error { return whileRootStarts(a, catchUnconfined) },
	"race-exe":  func(a []string) error { return whileRootStarts(a, catchProgram) },
	"exe":       func(a []string) error { return writableProgram(a[0], nil) },
}

// The agent's language, spoken badly on purpose, and so not with the package that
// speaks it well: a request is JSON behind its length, what follows is frames.

// request is a message as it should be.
func request(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// sleeper asks for a program that reads nothing.
var sleeper = request(`{"op":"exec","exec":{"argv":["L2Jpbi9zbGVlcA==","MQ=="],"env":[],"dir":"/"}}`)

// abuses are what is sent on one connection each.
var abuses = map[string]func() [][]byte{
	"garbage": func() (all [][]byte) {
		for range 50 {
			junk := make([]byte, 4096)
			rand.Read(junk)
			all = append(all, junk)
		}
		return all
	},
	"malformed": func() (all [][]byte) {
		for _, text := range []string{`{`, `[]`, `{"op":7}`, `{"op":"exec"}`, `{"op":"exec","exec":{"argv":[]}}`, `{"op":"exec","exec":{"argv":[""],"dir":"/"}}`,
			`{"op":"io"}`, `{"op":"stop"}`, `{"op":"boot"}`, `{"op":"status"}`, strings.Repeat("[", 100000)} {
			all = append(all, request(text))
		}
		return all
	},
	"oversized": func() [][]byte {
		return [][]byte{append([]byte{0xff, 0xff, 0xff, 0xff}, make([]byte, 1<<16)...), {0x00, 0x7f, 0xff, 0xff, '{'}}
	},
	// After a proper start: every kind of frame with a length that lies, and junk.
	"frames": func() (all [][]byte) {
		for _, kind := range []byte{0, 1, 2, 3, 7, 'm', 's', 'x', 255} {
			for _, size := range []uint32{0, 1, 1 << 16, 1 << 31, 1<<32 - 1} {
				frame := binary.BigEndian.AppendUint32([]byte{kind}, size)
				all = append(all, append(append(bytes.Clone(sleeper), frame...), "{junk"...))
			}
		}
		return all
	},
	// More input than a program that does not read was given credit for.
	"credit": func() [][]byte {
		big := bytes.Clone(sleeper)
		for range 64 {
			big = append(binary.BigEndian.AppendUint32(append(big, 0), 1<<15), make([]byte, 1<<15)...)
		}
		return [][]byte{big, bytes.Clone(big)}
	},
	"replay": func() (all [][]byte) {
		for range 20 {
			all = append(all, append(bytes.Clone(sleeper), sleeper...))
		}
		return all
	},
	"flood": func() [][]byte { return make([][]byte, 3000) },
}

// abuse breaks the rules of the control protocol in one of several ways. It gets
// through when it was sent; what counts is what is left standing.
func abuse(a []string) error {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for _, b := range abuses[a[0]]() {
		c, err := knock()
		if err != nil {
			return err
		}
		held = append(held, c)
		c.SetWriteDeadline(time.Now().Add(2 * time.Second))
		c.Write(b) // the agent may hang up on us at any point
	}
	return nil
}

// knock connects to the agent, which may not listen yet when the first program starts.
func knock() (c net.Conn, err error) {
	for end := time.Now().Add(wait); ; time.Sleep(time.Millisecond) {
		if c, err = net.Dial("unix", guest.Socket); err == nil || time.Now().After(end) {
			return c, err
		}
	}
}

// asRoot has the agent run a program as root, and returns when it has ended.
func asRoot() error {
	c, err := knock()
	if err != nil {
		return err
	}
	defer c.Close()
	// A name that is looked for in many places, and found in the last: that is how
	// long the way to root is.
	path := base64.StdEncoding.EncodeToString([]byte("PATH=" + strings.Repeat("/nowhere:", 400) + "/bin"))
	text := fmt.Sprintf(`{"op":"exec","exec":{"argv":["dHJ1ZQ=="],"env":[%q],"dir":"/","root":true}}`, path)
	if _, err := c.Write(request(text)); err != nil {
		return err
	}
	said, err := io.ReadAll(c)
	if err == nil && !bytes.Contains(said, []byte{'x', 0, 0, 0, 2}) { // the frame that tells of the end
		err = fmt.Errorf("the agent said %q", said)
	}
	return err
}

// whileRootStarts asks for programs as root, 20 or as many as its argument says, and
// calls look over and over meanwhile, until it finds something.
func whileRootStarts(a []string, look func() error) error {
	rounds := 20
	if len(a) > 0 {
		rounds = number(a[0])
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < rounds && err == nil; n++ {
			err = asRoot()
		}
		done <- err
	}()
	looks := 0
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("start a program as root: %w", err)
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

// catchProgram finds a process that runs coffer from where it can be written. (The
// read-only mount at /.coffer is the same file by another way.)
func catchProgram() error {
	var coffer unix.Stat_t
	if err := unix.Stat("/.coffer/bin/coffer", &coffer); err != nil {
		return err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		if writableProgram(e.Name(), &coffer) == nil {
			return nil
		}
	}
	return fact("NEVER-OPEN")
}

// writableProgram takes hold of the file that a process runs, if it is the one asked
// for and its mount does not forbid to write to it.
func writableProgram(pid string, want *unix.Stat_t) error {
	fd, err := unix.Open("/proc/"+pid+"/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// From here on by the descriptor: the process may run something else by now.
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	switch {
	case want != nil && (st.Ino != want.Ino || st.Dev != want.Dev):
		return fact("ANOTHER")
	case fs.Flags&unix.ST_RDONLY != 0:
		return unix.EROFS
	}
	note = "got hold of the program of process " + pid
	return nil
}
