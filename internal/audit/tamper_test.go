package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sealed is a closed log of several files, none of which rotation has removed.
func sealed(t testing.TB) snapshot {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sealed")
	o := small
	o.Files = 9
	o.FileSize = 900
	write(t, o, dir, 0, 5)
	write(t, o, dir, 5, 4)
	verified(t, dir)
	s := take(t, dir)
	if len(s) != 5 {
		t.Fatalf("%d files", len(s))
	}
	return s
}

// edit changes the lines of one file.
func edit(name string, change func(lines []string) []string) func(snapshot) {
	return func(s snapshot) {
		lines := strings.SplitAfter(strings.TrimSuffix(s[name], "\n"), "\n")
		lines[len(lines)-1] += "\n"
		s[name] = strings.Join(change(lines), "")
	}
}

// reseal computes the hash of a line anew, as a careful forger would.
func reseal(line string) string {
	rec, err := parseLine([]byte(strings.TrimSuffix(line, "\n")))
	if err != nil && err != errSealed {
		panic(err)
	}
	start := strings.IndexByte(line, ',') + 1
	b, _ := appendLine(nil, rec.Seq, parseSum(rec.Prev), []byte("{"+line[start:len(line)-1-tailSize]+"}"))
	return string(b)
}

var (
	file1, file2, file3, file4 = fileName(1), fileName(2), fileName(3), fileName(4)
)

var tampering = map[string]struct {
	change func(snapshot)
	want   string // what is said about it
}{
	"changed": {edit(file1, func(l []string) []string {
		l[1] = strings.Replace(l[1], "host-1", "host-2", 1)
		return l
	}), file1 + " line 2 was changed"},
	"changed and sealed anew": {edit(file1, func(l []string) []string {
		l[1] = reseal(strings.Replace(l[1], "host-1", "host-2", 1))
		return l
	}), file1 + " line 3 (event 3) does not follow"},
	"last of a file changed and sealed anew": {edit(file1, func(l []string) []string {
		i := len(l) - 1
		l[i] = reseal(strings.Replace(l[i], "allow", "admit", 1))
		return l
	}), file2 + " line 1 (event "},
	"last changed and sealed anew": {edit(file4, func(l []string) []string {
		i := len(l) - 1
		l[i] = reseal(strings.Replace(l[i], "allow", "admit", 1))
		return l
	}), "not the one that the head file remembers"},
	"removed":          {edit(file1, func(l []string) []string { return slices.Delete(l, 1, 2) }), "event 2 is missing before " + file1 + " line 2"},
	"two removed":      {edit(file1, func(l []string) []string { return slices.Delete(l, 1, 3) }), "events 2 to 3 are missing"},
	"first removed":    {edit(file1, func(l []string) []string { return l[1:] }), "event 1 is missing"},
	"marker removed":   {edit(file2, func(l []string) []string { return l[1:] }), "does not start with the event that belongs there"},
	"end of a file":    {edit(file1, func(l []string) []string { return l[:len(l)-1] }), "is missing before " + file2 + " line 1"},
	"end":              {edit(file4, func(l []string) []string { return l[:len(l)-1] }), "is missing from the end"},
	"end within":       {edit(file4, func(l []string) []string { l[len(l)-1] = l[len(l)-1][:50]; return l }), "is missing from the end"},
	"swapped":          {edit(file1, func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }), "event 2 is missing before " + file1 + " line 2"},
	"doubled":          {edit(file1, func(l []string) []string { return slices.Insert(l, 1, l[1]) }), "stands where"},
	"inserted":         {edit(file1, func(l []string) []string { return slices.Insert(l, 1, "{}\n") }), file1 + " line 2 is not an event"},
	"added":            {edit(file4, func(l []string) []string { return append(l, follow(l[len(l)-1])) }), "added after the log was closed"},
	"bytes added":      {func(s snapshot) { s[file4] += "x" }, "1 bytes were added after the log was closed"},
	"empty line":       {edit(file1, func(l []string) []string { return slices.Insert(l, 1, "\n") }), file1 + " line 2 is not an event"},
	"first file":       {func(s snapshot) { delete(s, file1) }, "file " + file1 + " is missing"},
	"first two files":  {func(s snapshot) { delete(s, file1); delete(s, file2) }, "files " + file1 + " to " + file2 + " is missing"},
	"file in between":  {func(s snapshot) { delete(s, file2) }, "file " + file2 + " is missing"},
	"last file":        {func(s snapshot) { delete(s, file4) }, "missing from the end"},
	"last file empty":  {func(s snapshot) { s[file4] = "" }, "missing from the end"},
	"files swapped":    {func(s snapshot) { s[file1], s[file2] = s[file2], s[file1] }, "stands where"},
	"files renamed":    {func(s snapshot) { s[file2], s[file3] = s[file3], s[file4]; delete(s, file4) }, "are missing before " + file2},
	"all files":        {func(s snapshot) { clearBut(s, headName) }, "the log with its 9 events is gone"},
	"head":             {func(s snapshot) { delete(s, headName) }, "the head file is missing"},
	"head empty":       {func(s snapshot) { s[headName] = "" }, "the head file is damaged"},
	"head cut":         {func(s snapshot) { s[headName] = strings.TrimSpace(s[headName]) }, "the head file is damaged"},
	"head of its own":  {func(s snapshot) { s[headName] = string(head{number: 1}.encode()) + " " }, "the head file is damaged"},
	"head reset":       {func(s snapshot) { s[headName] = string(head{number: 1, closed: true}.encode()) }, "added after the log was closed"},
	"too long a line":  {edit(file1, func(l []string) []string { l[1] = strings.Repeat("x", 3*maxLine) + "\n"; return l }), file1 + " line 2 is not an event"},
	"nothing but dust": {func(s snapshot) { s[file1] = strings.Repeat("\x00", 5000) }, file1 + " ends within a line"},
}

func clearBut(s snapshot, name string) {
	for n := range s {
		if n != name {
			delete(s, n)
		}
	}
}

// follow makes a line that follows another.
func follow(line string) string {
	rec, _ := parseLine([]byte(strings.TrimSuffix(line, "\n")))
	b, _ := appendLine(nil, rec.Seq+1, parseSum(rec.Hash), encode(flow))
	return string(b)
}

// Verify sees what was done to a log. So does a Verify after the next session: opening a
// log does not wash it clean.
func TestTampering(t *testing.T) {
	whole := sealed(t)
	for name, test := range tampering {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := snapshot{}
			for k, v := range whole {
				s[k] = v
			}
			test.change(s)
			s.put(t, dir)
			got, err := Verify(dir)
			must(t, err)
			if !contains(got.Problems, test.want) {
				t.Errorf("problems:\n%s\nwant: %s", strings.Join(got.Problems, "\n"), test.want)
			}
			if len(got.Problems) > 4 {
				t.Errorf("one change is %d problems:\n%s", len(got.Problems), strings.Join(got.Problems, "\n"))
			}
			o := small
			o.Files = 8
			write(t, o, dir, 9, 1)
			again, err := Verify(dir)
			must(t, err)
			if len(again.Problems) == 0 {
				t.Error("the next session has hidden it")
			}
			last := ""
			err = Read(dir, Filter{Kinds: []string{KindFlow}}, func(r Record) error { last = r.Host; return nil })
			if last != "host-9" {
				t.Errorf("the log goes on with %s (%v)", last, err)
			}
			// From here on it is in order: no new problems come up.
			write(t, o, dir, 10, 20)
			more, err := Verify(dir)
			must(t, err)
			if !slices.Equal(more.Problems, again.Problems) {
				t.Errorf("problems were\n%s\nand are\n%s", strings.Join(again.Problems, "\n"), strings.Join(more.Problems, "\n"))
			}
		})
	}
}

// Control: put back as it was, it is in order.
func TestNotTampering(t *testing.T) {
	dir := t.TempDir()
	sealed(t).put(t, dir)
	if s := verified(t, dir); s.Events != 9 {
		t.Errorf("summary %+v", s)
	}
	write(t, small, dir, 9, 1)
	verified(t, dir)
}

// There is no byte of a closed log that can be changed, removed or doubled unseen.
func TestEveryByte(t *testing.T) {
	whole := sealed(t)
	dir := t.TempDir()
	whole.put(t, dir)
	changed := 0
	seen := func(name string, i int, what string) {
		t.Helper()
		changed++
		s, err := Verify(dir)
		must(t, err)
		if len(s.Problems) == 0 {
			t.Fatalf("%s: nothing is said about byte %d, %s", name, i, what)
		}
	}
	for name, text := range whole {
		path := filepath.Join(dir, name)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		for i := range text {
			_, err := f.WriteAt([]byte{text[i] ^ 1}, int64(i))
			must(t, err)
			seen(name, i, "changed")
			_, err = f.WriteAt([]byte{text[i]}, int64(i))
			must(t, err)
			if i%17 != 0 { // FuzzVerifyByte does the rest
				continue
			}
			for what, v := range map[string]string{
				"cut off": text[:i], "removed": text[:i] + text[i+1:], "doubled": text[:i+1] + text[i:],
				"made a line": text[:i] + "\n" + text[i:], "in another case": text[:i] + string([]byte{text[i] ^ 0x20}) + text[i+1:],
			} {
				must(t, os.WriteFile(path, []byte(v), 0o600))
				seen(name, i, what)
			}
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
		must(t, f.Close())
	}
	verified(t, dir)
	if changed < 4000 {
		t.Errorf("only %d changes", changed)
	}
}

// Any one byte, to any value.
func FuzzVerifyByte(f *testing.F) {
	whole := sealed(f)
	dir := f.TempDir()
	f.Add(uint8(0), uint16(0), byte('x'))
	f.Add(uint8(1), uint16(300), byte('\n'))
	f.Add(uint8(4), uint16(9), byte('0'))
	names := []string{file1, file2, file3, file4, headName}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, to byte) {
		name := names[int(which)%len(names)]
		b := []byte(whole[name])
		i := int(at) % len(b)
		if b[i] == to {
			return
		}
		b[i] = to
		whole.put(t, dir)
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		s, err := Verify(dir)
		must(t, err)
		if len(s.Problems) == 0 {
			t.Errorf("%s: byte %d can be %q", name, i, to)
		}
	})
}

// mangle makes changes to a log: for each four bytes of ops one change, to a file, at a
// place.
func mangle(whole snapshot, ops []byte) snapshot {
	names := []string{file1, file2, file3, file4, headName, fileName(5)}
	s := snapshot{}
	for k, v := range whole {
		s[k] = v
	}
	for ; len(ops) >= 4; ops = ops[4:] {
		name, other := names[int(ops[1])%len(names)], names[int(ops[2])%len(names)]
		text := s[name]
		at := (int(ops[2])<<8 | int(ops[3])) % (len(text) + 1)
		start := strings.LastIndexByte(text[:at], '\n') + 1
		end := start + len(strings.SplitAfterN(text[start:], "\n", 2)[0])
		switch ops[0] % 10 {
		case 0:
			delete(s, name)
		case 1:
			s[name] = text[:at]
		case 2:
			s[name] = text[:start] + text[end:]
		case 3:
			s[name] = text[:end] + text[start:]
		case 4:
			s[name] = text + text[start:end]
		case 5:
			s[name] = text[:at] + string(ops[3:4]) + text[at:]
		case 6:
			s[name] = text[:at] + string(ops[3:4]) + text[min(at+1, len(text)):]
		case 7:
			s[name], s[other] = s[other], s[name]
		case 8:
			s[name] = string(head{chain: chain{seq: uint64(ops[2])}, number: 1 + int(ops[3]%5), closed: ops[3] > 100}.encode())
		case 9:
			s[name] = text + strings.Repeat(string(ops[3:4]), int(ops[2])*1000)
		}
	}
	return s
}

// session writes one event with the writer alone, without the goroutine of a Log.
func session(t testing.TB, dir string) {
	t.Helper()
	w := &writer{dir: dir, max: 900, keep: 9}
	must(t, w.resume())
	_, err := w.add([][]byte{encode(flow)})
	must(t, err)
	must(t, w.sync(true))
	must(t, w.file.Close())
}

// Whatever was done to the files, reading ends, the log can be opened and goes on, and
// what was wrong with it is not forgotten.
func FuzzVerify(f *testing.F) {
	whole := sealed(f)
	for op := range byte(10) {
		f.Add([]byte{op, 0, 1, 50})
		f.Add([]byte{op, 3, 0, 200, op, 4, 3, 10})
		f.Add([]byte{op, 4, 0, 7, (op + 1) % 10, 3, 0, 0, (op + 5) % 10, 5, 1, 1})
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		dir := t.TempDir()
		mangle(whole, ops[:min(len(ops), 40)]).put(t, dir)
		before, err := Verify(dir)
		must(t, err)
		_ = Read(dir, Filter{Limit: 3}, func(Record) error { return nil })
		session(t, dir)
		after, err := Verify(dir)
		must(t, err)
		if len(before.Problems) > 0 && len(after.Problems) == 0 {
			t.Errorf("forgotten: %q", before.Problems)
		}
		session(t, dir)
		again, err := Verify(dir)
		must(t, err)
		if !slices.Equal(again.Problems, after.Problems) {
			t.Errorf("problems were\n%s\nand are\n%s", strings.Join(after.Problems, "\n"), strings.Join(again.Problems, "\n"))
		}
	})
}
