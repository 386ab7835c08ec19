package middleware

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	rt "github.com/arnodel/golua/runtime"
)

// each has a function called for every event or message that passes from now on.
func (x *exchange) each(m *message, f rt.Value) error {
	if m.each || m.whole != nil {
		return errors.New("the body was read, or is listened to, before")
	}
	l := &listener{machine: x.machine, f: f}
	media, _, _ := mime.ParseMediaType(m.header.Get("Content-Type"))
	coding := m.header.Get("Content-Encoding")
	conn, isConn := (*m.body).(io.ReadWriteCloser)
	switch {
	case x.res.StatusCode == http.StatusSwitchingProtocols && isConn && strings.EqualFold(m.header.Get("Upgrade"), "websocket"):
		*m.body = &socket{ReadWriteCloser: conn, down: frames{l: l, from: "server"}, up: frames{l: l, from: "client", masked: true}}
	case media != "text/event-stream":
		return errors.New("each is for server-sent events and WebSocket")
	case coding != "" && coding != "identity":
		return errors.New("the events are compressed: have the server send them plain by req:setHeader('accept-encoding', 'identity')")
	default:
		*m.body = &stream{l: l, in: bufio.NewReader(*m.body), body: *m.body}
		*m.length = -1
		m.header.Del("Content-Length")
	}
	m.each = true
	return nil
}

// A listener is a function of a script that outlives the call in which it was given. All its calls
// together have a bound too, because of what the function may remember.
type listener struct {
	mu sync.Mutex
	*machine
	f    rt.Value
	used uint64
}

// hear tells the function of an event. It returns the data to pass on, and whether to.
func (l *listener) hear(data string, fields map[string]string) (now string, pass bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used >= maxStream {
		l.say("the script failed: it used too much memory over this stream")
		return "", false, errors.New("a script used too much memory over this stream")
	}
	l.logs = 0
	err = l.call(min(maxMemory, maxStream-l.used), func(t *rt.Thread) error {
		defer func() { l.used += t.UsedResources().Memory }()
		event := rt.NewTable()
		t.RequireMem(uint64(512 + len(data)))
		t.SetTable(event, rt.StringValue("data"), rt.StringValue(data))
		for name, value := range fields {
			t.SetTable(event, rt.StringValue(name), rt.StringValue(value))
		}
		v, err := rt.Call1(t, l.f, rt.TableValue(event))
		if err != nil {
			return err
		}
		yes, isBool := v.TryBool()
		switch {
		case v.IsNil():
			now, pass = data, true
		case isBool:
			now, pass = data, yes
		default:
			pass = true
			now, err = text([]rt.Value{v}, 0)
		}
		if len(now) > maxEvent {
			return fmt.Errorf("an event has at most %d bytes", maxEvent)
		}
		return err
	})
	return now, pass, err
}

// A stream is a body of server-sent events that a function listens to.
type stream struct {
	l     *listener
	in    *bufio.Reader
	body  io.Closer
	out   []byte
	err   error
	begun bool
	cr    bool // the last line ended in one, of which a \n may be part
}

func (s *stream) Close() error { return s.body.Close() }

func (s *stream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.event()
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// event takes the lines up to an empty one. What the body ends in is an event too, as some clients
// take it for one.
func (s *stream) event() {
	var lines, data []string
	fields := map[string]string{}
	for size := 0; s.err == nil; {
		line, err := s.line(maxEvent - size)
		s.err = err
		if line == "" {
			break
		}
		size += len(line) + 1
		lines = append(lines, line)
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
		case "event", "id":
			fields[name] = value
		}
	}
	if s.err != nil && s.err != io.EOF || len(lines) == 0 {
		return
	}
	if len(data) > 0 {
		was := strings.Join(data, "\n")
		now, pass, err := s.l.hear(was, fields)
		if err != nil || !pass {
			s.err = errors.Join(s.err, err)
			if err == nil && s.err != nil {
				s.err = io.EOF
			}
			return
		}
		if now != was {
			lines = replaced(lines, now)
		}
	}
	s.out = []byte(strings.Join(lines, "\n") + "\n\n")
}

// replaced has other data in the lines of an event.
func replaced(lines []string, data string) (all []string) {
	for _, line := range lines {
		if name, _, _ := strings.Cut(line, ":"); name != "data" {
			all = append(all, line)
		}
	}
	for part := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data), "\n") {
		all = append(all, "data: "+part)
	}
	return all
}

// line reads a line, which ends in \n, \r or both.
func (s *stream) line(most int) (string, error) {
	var line []byte
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return string(line), err
		}
		skip := s.cr && c == '\n'
		s.cr = c == '\r'
		switch {
		case skip:
		case c == '\n' || c == '\r':
			text := string(line)
			if !s.begun {
				text = strings.TrimPrefix(text, "\ufeff")
			}
			s.begun = true
			return text, nil
		case len(line) >= most:
			return "", fmt.Errorf("an event has more than %d bytes", maxEvent)
		default:
			line = append(line, c)
		}
	}
}

// A socket is a WebSocket connection whose messages a function listens to, both ways.
type socket struct {
	io.ReadWriteCloser
	down, up frames
	out      []byte
	buffer   [32 << 10]byte
}

func (s *socket) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		n, err := s.ReadWriteCloser.Read(s.buffer[:])
		out, bad := s.down.pass(s.buffer[:n])
		s.out = out
		if err = errors.Join(bad, err); err != nil && len(s.out) == 0 {
			if bad == nil {
				err = io.EOF
			}
			return 0, err
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

func (s *socket) Write(p []byte) (int, error) {
	out, err := s.up.pass(p)
	if len(out) > 0 {
		if _, err := s.ReadWriteCloser.Write(out); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// frames are one direction of a WebSocket connection.
type frames struct {
	l      *listener
	from   string
	masked bool

	buf     []byte // of a frame that is not yet whole
	message []byte // of a message that is not yet whole
	kind    byte   // its opcode, 0 if there is none
}

// pass takes bytes and returns those that go on: control frames, and messages when they are whole.
func (f *frames) pass(data []byte) (out []byte, err error) {
	f.buf = append(f.buf, data...)
	for {
		if len(f.buf) < 2 {
			return out, nil
		}
		final, opcode, size, at := f.buf[0]&0x80 != 0, f.buf[0]&0xf, uint64(f.buf[1]&0x7f), 2
		if wide := map[uint64]int{126: 2, 127: 8}[size]; wide > 0 {
			if len(f.buf) < at+wide {
				return out, nil
			}
			size = binary.BigEndian.Uint64(append(make([]byte, 8-wide), f.buf[at:at+wide]...))
			at += wide
		}
		masked, control := f.buf[1]&0x80 != 0, opcode >= 8
		switch {
		case f.buf[0]&0x70 != 0, masked != f.masked, opcode > 2 && opcode < 8, opcode > 10,
			control && (!final || size > 125), !control && (opcode == 0) != (f.kind != 0):
			return out, errors.New("a WebSocket frame has a form that it must not have")
		case size+uint64(len(f.message)) > maxEvent || size > maxEvent:
			return out, fmt.Errorf("a WebSocket message has more than %d bytes", maxEvent)
		}
		var mask []byte
		if masked {
			at += 4
		}
		end := at + int(size)
		if len(f.buf) < end {
			return out, nil
		}
		payload := append([]byte{}, f.buf[at:end]...)
		if masked {
			mask = append(mask, f.buf[at-4:at]...)
			xor(payload, mask)
		}
		f.buf = f.buf[end:]
		if control {
			out = frame(out, opcode, payload, mask)
			continue
		}
		if f.message = append(f.message, payload...); opcode != 0 {
			f.kind = opcode
		}
		if !final {
			continue
		}
		was, kind := string(f.message), f.kind
		f.message, f.kind = nil, 0
		now, pass, err := f.l.hear(was, map[string]string{"from": f.from, "type": map[byte]string{1: "text", 2: "binary"}[kind]})
		if err != nil {
			return out, err
		}
		if pass {
			out = frame(out, kind, []byte(now), mask)
		}
	}
}

// frame appends a whole frame.
func frame(out []byte, opcode byte, payload, mask []byte) []byte {
	out = append(out, 0x80|opcode)
	bit := byte(0)
	if mask != nil {
		bit = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		out = append(out, bit|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, bit|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, bit|127), uint64(n))
	}
	if mask != nil {
		out = append(out, mask...)
		xor(payload, mask)
	}
	return append(out, payload...)
}

func xor(data, mask []byte) {
	for i := range data {
		data[i] ^= mask[i%4]
	}
}
