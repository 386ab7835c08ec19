package git

import "testing"

// A ref that is to move twice moves once, from where it is; git refuses two orders for one.
func TestOrders(t *testing.T) {
	s := session{refs: map[string]tip{"a": {id: "1"}, "b": {id: "1"}, "c": {id: "1"}, "d": {id: "1"}}}
	for _, move := range []struct{ ref, id string }{
		{"a", "2"}, {"a", "3"}, // twice
		{"b", "2"}, {"b", "1"}, // and back
		{"c", "2"}, {"c", ""}, // away
		{"d", ""}, {"d", "2"}, // away and to somewhere
		{"e", "1"}, {"e", "2"}, // a new one
		{"f", "1"}, {"f", ""}, // which is not needed after all
	} {
		s.set(move.ref, move.id)
	}
	first, then := s.orders.lines()
	if want := "delete c 1\n"; first != want {
		t.Errorf("first %q, want %q", first, want)
	}
	if want := "update a 3 1\nupdate d 2 1\ncreate e 2\n"; then != want {
		t.Errorf("then %q, want %q", then, want)
	}
	if s.refs["a"].id != "3" || s.refs["d"].id != "2" || s.refs["c"].id != "" {
		t.Errorf("it is seen as %v", s.refs)
	}
}
