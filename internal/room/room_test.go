package room

import (
	"testing"
	"time"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func TestFloor(t *testing.T) {
	for _, c := range []struct {
		what  string
		bytes uint64
		now   Free
		want  Floor
	}{
		{"much is free", gib, Free{100 * gib, 1e6}, Floor{gib, 1 << 16}},
		{"a small disk", gib, Free{4 * gib, 1e5}, Floor{gib, 5e4}},
		{"nearly full", gib, Free{600 * mib, 1000}, Floor{300 * mib, 500}},
		{"full", gib, Free{0, 0}, Floor{}},
		{"files are not counted", gib, Free{10 * gib, 0}, Floor{gib, 0}},
		{"asked for more", 50 * gib, Free{60 * gib, 1e9}, Floor{30 * gib, 50 << 16}},
		{"switched off", 0, Free{10 * gib, 100}, Floor{}},
	} {
		if got := NewFloor(c.bytes, c.now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestStates(t *testing.T) {
	f := Floor{gib, 1000}
	for _, c := range []struct {
		now                 Free
		low, ample, falling bool
	}{
		{Free{2 * gib, 5000}, false, true, false},
		{Free{gib, 1000}, false, false, false},
		{Free{gib - 1, 5000}, true, false, false},
		{Free{2 * gib, 999}, true, false, false},
		{Free{gib + gib/8, 1125}, false, true, false},
		{Free{gib/2 - 1, 5000}, true, false, true},
		{Free{2 * gib, 499}, true, false, true},
	} {
		if f.Low(c.now) != c.low || f.Ample(c.now) != c.ample || f.Falling(c.now) != c.falling {
			t.Errorf("%+v: low %v, ample %v, falling %v", c.now, f.Low(c.now), f.Ample(c.now), f.Falling(c.now))
		}
	}
	if none := (Floor{}); none.Low(Free{}) || none.Falling(Free{}) || !none.Ample(Free{}) {
		t.Error("without a floor, something is low")
	}
}

// Nobody can be below the floor before the next look, but for what is used in the shortest time
// there is between two.
func TestNext(t *testing.T) {
	f := Floor{gib, 1000}
	for _, c := range []struct {
		now        Free
		next, wait time.Duration
	}{
		{Free{1000 * gib, 1e9}, seldom, waiting},
		{Free{33 * gib, 1e9}, 2 * time.Second, waiting},
		{Free{gib + 400*mib, 1e9}, 24414062, 55664062},
		{Free{gib, 1e9}, often, 31250 * time.Microsecond},
		{Free{gib / 2, 1e9}, often, settled},
		{Free{1000 * gib, 1000 + filesPerSecond}, time.Second, waiting},
		{Free{1000 * gib, 1001}, often, settled},
	} {
		if got := f.Next(c.now); got != c.next {
			t.Errorf("%+v: the next look is in %v, want %v", c.now, got, c.next)
		}
		if got := f.Wait(c.now); got != c.wait {
			t.Errorf("%+v: while they wait, the next look is in %v, want %v", c.now, got, c.wait)
		}
	}
	if got := (Floor{Bytes: gib}).Next(Free{Bytes: 200 * gib}); got != seldom {
		t.Errorf("where files are not counted, the next look is in %v", got)
	}
}

func TestWords(t *testing.T) {
	for bytes, want := range map[uint64]string{gib: "1 GiB", gib + gib/2: "1.5 GiB", 300 * mib: "300 MiB", 2048: "2 KiB", 7: "7 bytes", 1023 * mib: "1023 MiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d is %s, want %s", bytes, got, want)
		}
	}
	if got := (Floor{gib, 10}).Lacks(Free{gib - 1, 5}); got != "less than 1 GiB is free" {
		t.Error(got)
	}
	if got := (Floor{gib, 10}).Lacks(Free{gib, 5}); got != "fewer than 10 files can be made" {
		t.Error(got)
	}
}
