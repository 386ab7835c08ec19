package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestRequests(t *testing.T) {
	odd := []byte{0xff, 0xfe, 0, 'a', 0x1b}
	for _, in := range []Request{
		{Op: OpExec, Exec: &Exec{Argv: [][]byte{odd}}},
		{Op: OpExec, Exec: &Exec{Argv: [][]byte{odd, {}, odd}, Env: [][]byte{odd, {}}, Dir: string(odd), Root: true, TTY: &Size{0, 0}}},
		{Op: OpExec, Exec: &Exec{TTY: &Size{65535, 1}, NoInput: true, Merged: true, Apart: true, Log: true}},
		{Op: OpExec, Exec: &Exec{Argv: [][]byte{bytes.Repeat([]byte("a"), 1<<20)}, NoInput: true}},
		{Op: OpExec, Exec: &Exec{Merged: true}},
		{Op: OpExec, Exec: &Exec{Umask: mask(0o077)}},
		{Op: OpExec, Exec: &Exec{Umask: mask(0), Dir: "/", Argv: [][]byte{odd}, Log: true, Keep: true}},
		{Op: OpStatus},
		{Op: OpStop, Stop: &Stop{Grace: 5}},
	} {
		var first, second bytes.Buffer
		if err := WriteRequest(&first, in); err != nil {
			t.Fatal(err)
		}
		packed, err := ReadRequest(&first)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := packed.IsExec(), in.Exec != nil && !in.Exec.Log; got != want {
			t.Errorf("IsExec is %v for %+v", got, in)
		}
		// What a supervisor passes on arrives as it was sent.
		if err := packed.Pass(&second); err != nil {
			t.Fatal(err)
		}
		if packed, err = ReadRequest(&second); err != nil {
			t.Fatal(err)
		}
		out, err := packed.Open()
		if err != nil {
			t.Fatal(err)
		}
		if in.Exec != nil && len(in.Exec.Argv) > 0 && !bytes.Equal(out.Exec.Argv[0], in.Exec.Argv[0]) {
			t.Error("an argument changed on the way")
		}
		if fmt.Sprintf("%#v %#v %#v", out.Op, show(out.Exec), out.Stop) != fmt.Sprintf("%#v %#v %#v", in.Op, show(in.Exec), in.Stop) {
			t.Errorf("got %+v, want %+v", out, in)
		}
	}
}

// show is an Exec as text, with nothing left out.
func show(e *Exec) string {
	if e == nil {
		return "none"
	}
	mask := "the usual"
	if e.Umask != nil {
		mask = fmt.Sprintf("%#o", *e.Umask)
	}
	return fmt.Sprintf("%q %q %q %v %+v %v %v %v %v %v %s", e.Argv, e.Env, e.Dir, e.Root, e.TTY, e.NoInput, e.Merged, e.Apart, e.Log, e.Keep, mask)
}

func mask(bits uint16) *uint16 { return &bits }

func TestPackedExecRefuses(t *testing.T) {
	good := (&Exec{Argv: [][]byte{[]byte("true")}, Env: [][]byte{[]byte("A=b")}, Dir: "/", TTY: &Size{1, 2}}).pack(nil)
	if _, err := Packed(good).Open(); err != nil {
		t.Fatal(err)
	}
	for n := range len(good) {
		if _, err := Packed(good[:n]).Open(); !errors.Is(err, ErrMessage) {
			t.Errorf("the first %d of %d bytes gave %v", n, len(good), err)
		}
	}
	for name, body := range map[string]string{
		"something after": string(good) + "x",
		"unknown flags":   "x\x80\x02\x00\x00\x00\x00\x00",
		"umask too large": "x\x80\x01\x00\x00\x80\x08\x00\x00\x00",
		"rows too large":  "x\x04\xff\xff\xff\x01\x01\x00\x00\x00",
		"dir too long":    "x\x00\x00\x00\x7f/",
		"many arguments":  "x\x00\x00\x00\x00\xff\xff\xff\xff\x0f" + strings.Repeat("\x00", 100),
		"endless number":  "x\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
	} {
		if r, err := Packed(body).Open(); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: got %+v, %v", name, r.Exec, err)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add((&Exec{Argv: [][]byte{[]byte("true")}, Dir: "/", TTY: &Size{1, 2}}).pack(nil))
	f.Add([]byte(`{"op":"stop","stop":{"grace":1}}`))
	f.Add([]byte("x"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Packed(b).Open()
		if err != nil || r.Exec == nil {
			return
		}
		// What was understood can be said again.
		again, err := Packed(r.Exec.pack(nil)).Open()
		if err != nil || show(again.Exec) != show(r.Exec) {
			t.Errorf("%s became %s, %v", show(r.Exec), show(again.Exec), err)
		}
	})
}

func TestReadMessageRefuses(t *testing.T) {
	frame := func(n uint32, body string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, n), body...)
	}
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"too long":   {frame(MaxReply+1, "{}"), ErrMessage},
		"huge":       {frame(1<<32-1, "{}"), ErrMessage},
		"cut short":  {frame(100, "{}"), io.ErrUnexpectedEOF},
		"not json":   {frame(3, "{{{"), ErrMessage},
		"wrong type": {frame(17, `{"failure":"oops"}`[:17]), ErrMessage},
		"empty":      {nil, io.EOF},
	} {
		var e Event
		if err := ReadMessage(bytes.NewReader(c.in), MaxReply, &e); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x15{\"op\":\"exec\",\"exec\":{}}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		_ = ReadMessage(bytes.NewReader(b), MaxRequest, &r)
		var e Event
		_ = ReadMessage(bytes.NewReader(b), MaxReply, &e)
	})
}

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	w := NewFrameWriter(&buf)
	big := bytes.Repeat([]byte("0123456789abcdef"), 3*MaxData/16)
	if err := w.Data(Output, big); err != nil {
		t.Fatal(err)
	}
	if err := w.Message(Event{Credit: 7}); err != nil {
		t.Fatal(err)
	}
	r := NewFrameReader(&buf)
	var got []byte
	for range 3 {
		kind, body, err := r.Next()
		if err != nil || kind != Output {
			t.Fatalf("got kind %d, %v", kind, err)
		}
		got = append(got, body...)
	}
	if !bytes.Equal(got, big) {
		t.Error("the bytes changed on the way")
	}
	if kind, body, err := r.Next(); err != nil || kind != Message || string(body) != `{"credit":7}` {
		t.Errorf("got %d %q %v", kind, body, err)
	}
	if _, _, err := NewFrameReader(bytes.NewReader([]byte{1, 0, 1, 0, 1})).Next(); !errors.Is(err, ErrMessage) {
		t.Errorf("a frame that is too long gave %v", err)
	}
}

// A client sends no more than it has credit for, whatever the server grants.
func TestCredit(t *testing.T) {
	p := &Process{credit: Window}
	p.more.L = &p.mu
	if got := p.spend(10 * Window); got != Window {
		t.Errorf("spent %d", got)
	}
	for _, body := range []string{`{"credit":-5}`, `{"credit":999999999}`, `{"credit":3}`} {
		if err := p.event([]byte(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	if got := p.spend(10); got != 3 {
		t.Errorf("spent %d of a credit of 3", got)
	}
	p.end()
	if got := p.spend(1); got != 0 {
		t.Errorf("spent %d after the end", got)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x02hi"))
	f.Add([]byte("m\x00\x00\x00\x0c{\"signal\":9}"))
	f.Add([]byte("m\xff\xff\xff\xff"))
	f.Add([]byte("m\x00\x00\x00\x10{\"stopped\":true}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewFrameReader(bytes.NewReader(b))
		for {
			kind, body, err := r.Next()
			if err != nil {
				return
			}
			if len(body) > MaxData {
				t.Fatalf("%d bytes", len(body))
			}
			if kind == Message {
				_, _ = DecodeControl(body)
				p := &Process{out: NewFrameWriter(io.Discard)}
				p.more.L = &p.mu
				_ = p.event(body)
			}
		}
	})
}

// pieces keeps what is written, one by one.
type pieces [][]byte

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, bytes.Clone(b))
	return len(b), nil
}

// The two frames of every program, and what a client makes of them.
func TestStartAndExit(t *testing.T) {
	for _, want := range []Exit{{}, {Code: 255}, {Signal: 9}, {Signal: 64}} {
		var buf bytes.Buffer
		w := NewFrameWriter(&buf)
		_ = w.Started()
		_ = w.Data(Output, []byte("out"))
		_ = w.Data(Errors, []byte("err"))
		_ = w.Exited(want)
		p := &Process{frames: NewFrameReader(&buf)}
		p.more.L = &p.mu
		if err := p.WaitStart(); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		got, err := p.Wait(&stdout, &stderr)
		if err != nil || got != want || stdout.String() != "out" || stderr.String() != "err" {
			t.Errorf("got %+v, %q, %q, %v; want %+v", got, stdout.String(), stderr.String(), err, want)
		}
	}
	// A start that may wait comes with what is said first, and in front of it.
	var pieces pieces
	w := NewFrameWriter(&pieces)
	w.StartedSoon()
	_ = w.Exited(Exit{})
	if len(pieces) != 1 || !bytes.HasPrefix(pieces[0], []byte{Started}) {
		t.Errorf("got %q", pieces)
	}
	// And by itself when nothing is said.
	r, other := io.Pipe()
	NewFrameWriter(other).StartedSoon()
	if kind, body, err := NewFrameReader(r).Next(); kind != Started || len(body) != 0 || err != nil {
		t.Errorf("got %c %q %v", kind, body, err)
	}
	for _, bad := range []string{"x\x00\x00\x00\x00", "x\x00\x00\x00\x03abc"} {
		p := &Process{frames: NewFrameReader(strings.NewReader(bad))}
		p.more.L = &p.mu
		if _, err := p.Wait(nil, nil); !errors.Is(err, ErrMessage) {
			t.Errorf("%q gave %v", bad, err)
		}
		p = &Process{frames: NewFrameReader(strings.NewReader(bad))}
		if err := p.WaitStart(); !errors.Is(err, ErrMessage) {
			t.Errorf("an end before the start gave %v", err)
		}
	}
}
