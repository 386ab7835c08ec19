package wire

import (
	"bytes"
	"io"
	"testing"
)

func TestInboxHoldsItsClientToTheWindow(t *testing.T) {
	in := NewInbox(func(int) {})
	if !in.Put(make([]byte, Window)) {
		t.Fatal("refused what it had credit for")
	}
	if in.Put([]byte{1}) {
		t.Error("took more than it had credit for")
	}
}

func TestInboxGrantsWhatWasRead(t *testing.T) {
	granted := 0
	in := NewInbox(func(n int) { granted += n })
	want := make([]byte, 3*Window)
	for i := range want {
		want[i] = byte(i % 251)
	}
	var got bytes.Buffer
	sent, credit := 0, Window
	buf := make([]byte, 10000)
	for got.Len() < len(want) {
		if n := min(credit, len(want)-sent, 7777); n > 0 {
			if !in.Put(want[sent : sent+n]) {
				t.Fatal("no room although there was credit")
			}
			sent, credit = sent+n, credit-n
		}
		if sent == len(want) {
			in.Close()
		}
		n, err := in.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(buf[:n])
		credit, granted = credit+granted, 0
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("the bytes changed on the way")
	}
	if _, err := in.Read(buf); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}
