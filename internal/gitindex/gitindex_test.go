package gitindex

import (
	"encoding/binary"
	"strings"
	"testing"
)

// written is an index of some entries, without extensions.
func written(version uint32, entries ...Entry) string {
	b := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	last := ""
	for _, e := range entries {
		b = e.appendTo(b, version, last)
		last = e.Name
	}
	return string(b)
}

func readAll(text string, size int) (all []Entry, rest string, err error) {
	r, err := NewReader(text, size)
	if err != nil {
		return nil, "", err
	}
	for r.Count > 0 {
		e, err := r.Next()
		if err != nil {
			return nil, "", err
		}
		all = append(all, e)
	}
	return all, r.Rest(), nil
}

func TestEntries(t *testing.T) {
	want := []Entry{
		{Name: "a", ID: strings.Repeat("1", 20), Stat: Stat{1, 2, 3, 4, 5, 6, 0o100644, 8, 9, 10}, Flags: 1},
		{Name: "a/" + strings.Repeat("long", 5000), ID: strings.Repeat("2", 20), Stat: Stat{Mode: 0o120000}, Flags: NameMask},
		{Name: "b", ID: strings.Repeat("3", 20), Stat: Stat{Mode: Gitlink}, Flags: 1},
	}
	for version := uint32(2); version <= 4; version++ {
		if version > 2 {
			want[2].Flags, want[2].More = 1|Extended, Skipped
		}
		got, rest, err := readAll(written(version, want...)+"rest", 20)
		if err != nil || len(got) != len(want) || rest != "rest" {
			t.Errorf("version %d: %d entries, %q, %v", version, len(got), rest, err)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("version %d: %+v is %+v", version, want[i], got[i])
			}
		}
	}
	if got := want[0]; got.Changed() != 1e9+2 || got.Mtime() != 3e9+4 {
		t.Errorf("changed at %d and %d", got.Changed(), got.Mtime())
	}
}

func TestNotAnIndex(t *testing.T) {
	e := Entry{Name: "a", ID: strings.Repeat("1", 20), Flags: 1}
	good := written(2, e)
	long := good[:4] + "\x00\x00\x00\x04" + good[8:12] + good[12:74]
	for name, text := range map[string]string{
		"nothing": "", "another file": "PACK" + good[4:], "version 1": written(1, e), "version 5": written(5, e),
		"cut off": good[:len(good)-1], "an entry more": good[:8] + "\x00\x00\x00\x02" + good[12:],
		"many":                      good[:8] + "\xff\xff\xff\xff" + good[12:],
		"more flags in version 2":   written(2, Entry{Name: "a", ID: e.ID, Flags: 1 | Extended}),
		"no name":                   written(2, Entry{ID: e.ID}),
		"no end of a name":          long + "\x00aaa",
		"of more than there was":    long + "\x01a\x00",
		"a number that is too long": long + "\xff\xff\xff\xff\x00a\x00",
	} {
		if got, _, err := readAll(text, 20); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, _, err := readAll(good, 20); err != nil {
		t.Error(err)
	}
	r, err := NewReader(good, 20)
	if err == nil {
		_, err = r.Next()
	}
	if err != nil {
		t.Fatal(err)
	}
	if e, err := r.Next(); err == nil {
		t.Errorf("one more than there is: %+v", e)
	}
}

// Whatever an index says, what is read of it can be written, and is the same then.
func FuzzRead(f *testing.F) {
	for version := uint32(2); version <= 4; version++ {
		f.Add([]byte(written(version, Entry{Name: "a/b", ID: strings.Repeat("i", 20), Flags: 3}, Entry{Name: "a/bc", ID: strings.Repeat("i", 20), Flags: 4})), true)
	}
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"), false)
	f.Fuzz(func(t *testing.T, b []byte, short bool) {
		size := 32
		if short {
			size = 20
		}
		all, _, err := readAll(string(b), size)
		if err != nil {
			return
		}
		again, rest, err := readAll(written(uint32(b[7]), all...), size)
		if err != nil || rest != "" || len(again) != len(all) {
			t.Fatalf("%v: %d entries of %d, and %q", err, len(again), len(all), rest)
		}
		for i := range all {
			if all[i] != again[i] {
				t.Fatalf("%+v is %+v", all[i], again[i])
			}
		}
	})
}

func FuzzOffset(f *testing.F) {
	f.Add(0)
	f.Add(128)
	f.Add(1 << 27)
	f.Fuzz(func(t *testing.T, value int) {
		if value < 0 || value >= 1<<28 {
			return
		}
		text := string(appendOffset(nil, value))
		if got, n := offset(text + "x"); got != value || n != len(text) {
			t.Fatalf("%d is %d, in %d bytes of %d", value, got, n, len(text))
		}
	})
}

// appendTo writes an entry that comes after one of another name, or none.
func (e *Entry) appendTo(b []byte, version uint32, last string) []byte {
	start := len(b)
	for _, p := range e.numbers() {
		b = append(b, byte(*p>>24), byte(*p>>16), byte(*p>>8), byte(*p))
	}
	b = append(b, e.ID...)
	b = append(b, byte(e.Flags>>8), byte(e.Flags))
	if e.Flags&Extended != 0 {
		b = append(b, byte(e.More>>8), byte(e.More))
	}
	if version == 4 {
		same := 0
		for same < min(len(last), len(e.Name)) && last[same] == e.Name[same] {
			same++
		}
		b = appendOffset(b, len(last)-same)
		return append(append(b, e.Name[same:]...), 0)
	}
	b = append(append(b, e.Name...), 0)
	for (len(b)-start)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func appendOffset(b []byte, value int) []byte {
	var text [8]byte
	at := len(text) - 1
	text[at] = byte(value & 0x7f)
	for value >>= 7; value > 0; value >>= 7 {
		value--
		at--
		text[at] = byte(value&0x7f) | 0x80
	}
	return append(b, text[at:]...)
}
