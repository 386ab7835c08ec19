package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestRequests(t *testing.T) {
	odd := []byte{0xff, 0xfe, 0, 'a', 0x1b}
	for _, in := range []Request{
		{Op: OpExec, Exec: &Exec{Argv: [][]byte{odd}}},
		{Op: OpExec, Exec: &Exec{Argv: [][]byte{odd, {}, odd}, Env: [][]byte{odd, {}}, Dir: "/a dir", Root: true, TTY: &Size{0, 0}}},
		{Op: OpExec, Exec: &Exec{TTY: &Size{65535, 1}, NoInput: true, Merged: true, Apart: true, Log: true}},
		{Op: OpExec, Exec: &Exec{Argv: [][]byte{bytes.Repeat([]byte("a"), 1<<20)}, NoInput: true}},
		{Op: OpExec, Exec: &Exec{Merged: true}},
		{Op: OpExec, Exec: &Exec{Umask: mask(0o077)}},
		{Op: OpExec, Exec: &Exec{Umask: mask(0), Dir: "/", Argv: [][]byte{odd}, Log: true, Keep: true}},
		{Op: OpStatus},
		{Op: OpStop, Stop: &Stop{Grace: 5}},
	} {
		var first, second bytes.Buffer
		if err := WriteMessage(&first, in); err != nil {
			t.Fatal(err)
		}
		passed, err := ReadRequest(&first)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := passed.Passes(), in.Exec != nil && !in.Exec.Log; got != want {
			t.Errorf("Passes is %v for %+v", got, in)
		}
		// What a supervisor passes on arrives as it was sent.
		if err := WriteMessage(&second, passed); err != nil {
			t.Fatal(err)
		}
		out, err := ReadRequest(&second)
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

func FuzzReadRequest(f *testing.F) {
	for _, r := range []Request{{Op: OpExec, Exec: &Exec{Argv: [][]byte{[]byte("true")}, Dir: "/", TTY: &Size{1, 2}}}, {Op: OpStop, Stop: &Stop{Grace: 1}}} {
		var b bytes.Buffer
		if err := WriteMessage(&b, r); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadRequest(bytes.NewReader(b))
		if err != nil || r.Exec == nil {
			return
		}
		// What was understood can be said again.
		var again bytes.Buffer
		if err := WriteMessage(&again, r); err != nil {
			t.Fatal(err)
		}
		same, err := ReadRequest(&again)
		if err != nil || show(same.Exec) != show(r.Exec) {
			t.Errorf("%s became %s, %v", show(r.Exec), show(same.Exec), err)
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
		if err != nil || !reflect.DeepEqual(got, want) || stdout.String() != "out" || stderr.String() != "err" {
			t.Errorf("got %+v, %q, %q, %v; want %+v", got, stdout.String(), stderr.String(), err, want)
		}
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
