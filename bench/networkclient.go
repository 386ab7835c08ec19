package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A task is what the bench asks a client to do, and a report its answer: one
// line of JSON each, on the client's stdin and stdout. Only the client looks at
// the clock, so the way to it does not count.
type task struct {
	Do      string        `json:"do"` // up, down, connect, dns, hold, again, release
	To      string        `json:"to,omitempty"`
	Streams int           `json:"streams,omitempty"`
	Lasts   time.Duration `json:"lasts,omitempty"`
	Count   int           `json:"count,omitempty"`
	Name    string        `json:"name,omitempty"`
	Refused bool          `json:"refused,omitempty"` // what the answer about Name must be
}

type report struct {
	Times  []time.Duration `json:"times,omitempty"`
	Bytes  int64           `json:"bytes,omitempty"`
	CPU    time.Duration   `json:"cpu,omitempty"` // that the client used
	Served int             `json:"served,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// clientLimit ends what hangs.
const clientLimit = 30 * time.Second

// clientMain does what it is asked until nobody asks any more.
func clientMain() error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var held []net.Conn
	for {
		var t task
		if err := in.Decode(&t); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var r report
		var err error
		switch t.Do {
		case "up", "down":
			before := processorTime()
			r.Times, r.Bytes, err = transfer(t)
			r.CPU = processorTime() - before
		case "connect":
			r.Times, err = connects(t)
		case "dns":
			r.Times, err = queries(t)
		case "hold":
			held, err = hold(t)
			r.Served = len(held)
		case "again":
			r.Served = countEchoes(held)
		case "release":
			for _, c := range held {
				c.Close()
			}
			held = nil
		default:
			err = fmt.Errorf("no task %q", t.Do)
		}
		if err != nil {
			r.Error = err.Error()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

// What the server is to do with a connection is its first byte. These are no
// beginning of TLS, HTTP or SSH: a gateway that looks knows that at once.
const (
	wantEcho byte = 1 + iota
	wantUp
	wantDown
)

// Bulk comes in blocks, of which the first byte says whether another one follows.
// The end of the connection would do as well, but not everybody hands on one
// half of it.
const (
	blockSize = 128 << 10
	blockMore = 1
	blockLast = 2
)

// transfer moves bytes for a while and returns how long a gigabyte would take.
func transfer(t task) ([]time.Duration, int64, error) {
	conns := make([]net.Conn, t.Streams)
	for i := range conns {
		c, err := dialServer(t.To)
		if err != nil {
			return nil, 0, err
		}
		defer c.Close()
		conns[i] = c
	}
	var all sync.WaitGroup
	moved, errs := make([]int64, len(conns)), make([]error, len(conns))
	start := time.Now()
	for i, c := range conns {
		all.Go(func() {
			if t.Do == "up" {
				moved[i], errs[i] = upload(c, start.Add(t.Lasts))
			} else {
				moved[i], errs[i] = download(c, t.Lasts)
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	var sum int64
	for _, n := range moved {
		sum += n
	}
	if err := errors.Join(errs...); err != nil {
		return nil, 0, err
	}
	if sum == 0 {
		return nil, 0, errors.New("nothing was moved")
	}
	return []time.Duration{time.Duration(float64(took) * gigabyte / float64(sum))}, sum, nil
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func dialServer(to string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", to, clientLimit)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(clientLimit))
}

// upload sends, and returns how much the server says it got.
func upload(c net.Conn, until time.Time) (int64, error) {
	if _, err := c.Write([]byte{wantUp}); err != nil {
		return 0, err
	}
	if err := sendBlocks(c, until); err != nil {
		return 0, err
	}
	var got [8]byte
	_, err := io.ReadFull(c, got[:])
	return int64(binary.BigEndian.Uint64(got[:])), err
}

func download(c net.Conn, lasts time.Duration) (int64, error) {
	if _, err := c.Write(binary.BigEndian.AppendUint64([]byte{wantDown}, uint64(lasts))); err != nil {
		return 0, err
	}
	return receiveBlocks(c)
}

func sendBlocks(c net.Conn, until time.Time) error {
	b := make([]byte, blockSize)
	b[0] = blockMore
	for b[0] == blockMore {
		if time.Now().After(until) {
			b[0] = blockLast
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func receiveBlocks(c net.Conn) (int64, error) {
	b := make([]byte, blockSize)
	for sum := int64(0); ; {
		if _, err := io.ReadFull(c, b); err != nil {
			return sum, err
		}
		sum += blockSize
		if b[0] == blockLast {
			return sum, nil
		}
	}
}

// apart is the time between two connections. What is left to do about one that has
// ended is no part of how long the next one takes.
const apart = time.Millisecond

// connects times connecting, saying a byte and hearing it back.
func connects(t task) (times []time.Duration, err error) {
	for range t.Count {
		time.Sleep(apart)
		start := time.Now()
		c, err := dialServer(t.To)
		if err != nil {
			return nil, err
		}
		err = echo(c, []byte{wantEcho, 'x'})
		times = append(times, time.Since(start))
		c.Close()
		if err != nil {
			return nil, err
		}
	}
	return times, nil
}

// echo says something and hears the last byte of it back.
func echo(c net.Conn, say []byte) error {
	if _, err := c.Write(say); err != nil {
		return err
	}
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	if b[0] != say[len(say)-1] {
		return errors.New("the server answered something else")
	}
	return nil
}

// hold opens many connections, a few at a time, and keeps those that answer.
func hold(t task) ([]net.Conn, error) {
	const atOnce = 32
	var mu sync.Mutex
	var held []net.Conn
	var first error
	var all sync.WaitGroup
	for n := range atOnce {
		all.Go(func() {
			for i := n; i < t.Count; i += atOnce {
				c, err := dialServer(t.To)
				if err == nil {
					err = echo(c, []byte{wantEcho, 'x'})
				}
				mu.Lock()
				if err == nil {
					held = append(held, c)
				} else if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(held) == 0 {
		return nil, first
	}
	return held, nil
}

// countEchoes says something on every connection, and then listens on every one.
func countEchoes(held []net.Conn) (served int) {
	for _, c := range held {
		_ = c.SetDeadline(time.Now().Add(clientLimit))
		_, _ = c.Write([]byte{'y'})
	}
	for _, c := range held {
		var b [1]byte
		if _, err := io.ReadFull(c, b[:]); err == nil && b[0] == 'y' {
			served++
		}
	}
	return served
}

// queries times questions for a name's address, each from a socket of its own.
func queries(t task) (times []time.Duration, err error) {
	name, err := dnsmessage.NewName(t.Name + ".")
	if err != nil {
		return nil, err
	}
	for n := range t.Count {
		took, err := query(t.To, uint16(n+1), name, t.Refused)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

func query(to string, id uint16, name dnsmessage.Name, refused bool) (time.Duration, error) {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	ask, err := m.Pack()
	if err != nil {
		return 0, err
	}
	c, err := net.Dial("udp", to)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(clientLimit))
	b := make([]byte, 1232)
	start := time.Now()
	if _, err = c.Write(ask); err != nil {
		return 0, err
	}
	size, err := c.Read(b)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	var got dnsmessage.Message
	if err := got.Unpack(b[:size]); err != nil {
		return 0, err
	}
	has := got.RCode == dnsmessage.RCodeSuccess && len(got.Answers) > 0
	if has == refused || got.ID != id {
		return 0, fmt.Errorf("the answer about %s is %s with %d addresses", name, got.RCode, len(got.Answers))
	}
	return took, nil
}
