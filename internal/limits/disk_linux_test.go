package limits

import (
	"path/filepath"
	"testing"
)

// What is to stay free is never more than half of what is free.
func TestFloor(t *testing.T) {
	const keep, mega = 1 << 30, 1 << 20
	for _, c := range []struct{ free, want space }{
		{space{100 * keep, 1e6}, space{keep, keep >> 14}},
		{space{mega, 1e6}, space{mega / 2, keep >> 14}},
		{space{100 * keep, 100}, space{keep, 50}},
		{space{100 * keep, 0}, space{keep, 0}}, // it does not count its files
		{space{}, space{}},
	} {
		if got := floorFor(keep, c.free); got != c.want {
			t.Errorf("of %+v, %+v is kept, want %+v", c.free, got, c.want)
		}
	}
	floor := space{keep, 65536}
	for free, want := range map[space]string{
		{keep, 65536}:     "",
		{keep - 1, 65536}: "less than 1 GiB is free",
		{keep, 65535}:     "fewer than 65536 files can be made",
	} {
		if got := floor.short(free); got != want {
			t.Errorf("with %+v: %q, want %q", free, got, want)
		}
	}
	if got := (space{}).short(space{}); got != "" {
		t.Errorf("where nothing is kept: %q", got)
	}
	for n, want := range map[uint64]string{512 << 20: "512 MiB", 3 << 29: "1.5 GiB", 1000: "1000 bytes"} {
		if got := size(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
}

// A disk that was short is short until clearly more is free.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDisk(dir, 1<<30)
	must(t, err)
	defer d.Close()
	if other, err := OpenDisk(filepath.Dir(dir), 1<<30); err != nil || !d.Same(other) {
		t.Error("the same disk is another", err)
	} else {
		other.Close()
	}
	if why := d.Short(); why != "" {
		t.Error(why)
	}
	free, err := d.free()
	must(t, err)
	d.floor = space{bytes: 2 * free.bytes}
	if why := d.Short(); why == "" {
		t.Error("nothing is short")
	}
	d.floor = space{bytes: free.bytes - free.bytes/16} // less than an eighth above
	if why := d.Short(); why == "" {
		t.Error("a little room is enough")
	}
	d.floor = space{bytes: free.bytes / 2}
	if why := d.Short(); why != "" {
		t.Error(why)
	}
	if _, err := OpenDisk("/proc", 1<<30); err == nil {
		t.Error("of /proc it is known what is free")
	}
	var none *Disk
	if none.Short() != "" {
		t.Error("no disk is short")
	}
	none.Close()
}
