package guest

import (
	"bytes"
	"io"
	"testing"

	"github.com/cofferhq/coffer/internal/guest/wire"
)

func TestInboxHoldsItsClientToTheWindow(t *testing.T) {
	in := newInbox(func(int) {})
	if !in.put(make([]byte, wire.Window)) {
		t.Fatal("refused what it had credit for")
	}
	if in.put([]byte{1}) {
		t.Error("took more than it had credit for")
	}
}

func TestInboxGrantsWhatWasRead(t *testing.T) {
	granted := 0
	in := newInbox(func(n int) { granted += n })
	want := make([]byte, 3*wire.Window)
	for i := range want {
		want[i] = byte(i % 251)
	}
	var got bytes.Buffer
	sent, credit := 0, wire.Window
	buf := make([]byte, 10000)
	for got.Len() < len(want) {
		if n := min(credit, len(want)-sent, 7777); n > 0 {
			if !in.put(want[sent : sent+n]) {
				t.Fatal("no room although there was credit")
			}
			sent, credit = sent+n, credit-n
		}
		if sent == len(want) {
			in.close()
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
