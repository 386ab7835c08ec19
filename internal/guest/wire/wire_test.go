package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

func TestMessageRoundTripKeepsBytes(t *testing.T) {
	odd := []byte{0xff, 0xfe, 0, 'a', 0x1b}
	var buf bytes.Buffer
	in := Request{Op: OpExec, Exec: &Exec{Argv: [][]byte{odd}, TTY: &Size{0, 0}}}
	if err := WriteMessage(&buf, in); err != nil {
		t.Fatal(err)
	}
	var out Request
	if err := ReadMessage(&buf, MaxRequest, &out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Exec.Argv[0], odd) || out.Exec.TTY == nil {
		t.Fatalf("got %+v", out.Exec)
	}
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
		"wrong type": {frame(12, `{"exit":true}`[:12]), ErrMessage},
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
	var exit Exit
	for _, body := range []string{`{"credit":-5}`, `{"credit":999999999}`, `{"credit":3}`} {
		if done, err := p.event([]byte(body), &exit); done || err != nil {
			t.Errorf("%s: %v, %v", body, done, err)
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
				var exit Exit
				p := &Process{}
				p.more.L = &p.mu
				_, _ = p.event(body, &exit)
			}
		}
	})
}
