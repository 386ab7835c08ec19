package packet

import "testing"

// A room is given away with a large payload only, and only with one that is in it.
func TestRoom(t *testing.T) {
	var r room
	b := r.open()
	if len(b) != roomSize {
		t.Fatalf("%d bytes", len(b))
	}
	if r.keep(b[100:200]) != nil || r.keep(make([]byte, roomSize)) != nil {
		t.Fatal("given away for nothing")
	}
	if again := r.open(); &again[0] != &b[0] {
		t.Error("not used again")
	}
	copy(b[76:], "payload")
	v := r.keep(b[76 : 76+keepFrom])
	if v == nil || v.Size() != keepFrom || string(v.AsSlice()[:7]) != "payload" {
		t.Fatal("not given away")
	}
	if r.keep(b[76:]) != nil {
		t.Error("given away twice")
	}
	if again := r.open(); &again[0] == &b[0] {
		t.Error("used by two")
	}
	v.Release()
	r.close()
	r.close()
}
