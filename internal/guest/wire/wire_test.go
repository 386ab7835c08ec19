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
