package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l, err := (Options{}).Open(dir)
	must(t, err)
	l.Add(Event{Kind: KindStart})
	l.Add(flow)
	l.Add(Event{Kind: "Not A Kind", Detail: "x"})
	l.Add(Event{Kind: KindRecovered, Count: 99}) // only the log itself can say so
	l.Add(Event{Kind: KindStop, Time: time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC)})
	must(t, l.Close())
	l.Add(flow) // too late
	must(t, l.Close())

	var got []string
	must(t, Read(dir, Filter{}, func(r Record) error {
		got = append(got, fmt.Sprintf("%d %s %s", r.Seq, r.Kind, r.Host))
		if r.Time.IsZero() || r.Time.Year() > 3000 {
			t.Errorf("event %d is from %s", r.Seq, r.Time)
		}
		if line := string(r.Line()); !strings.HasPrefix(line, `{"seq":`) || !strings.Contains(line, r.Hash) {
			t.Errorf("line of event %d: %q", r.Seq, line)
		}
		return nil
	}))
	want := []string{"1 start ", "2 flow example.com", "3 other ", "4 other ", "5 stop "}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s := verified(t, dir)
	if s.Events != 5 || s.Rotated != 0 || s.First.After(s.Last) == false && s.First.IsZero() {
		t.Errorf("summary %+v", s)
	}
}

func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	must(t, os.Mkdir(dir, 0o755)) // is narrowed
	write(t, small, dir, 0, 20)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		info, err := d.Info()
		must(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", d.Name(), info.Mode().Perm(), want)
		}
		return nil
	}))
	if got := len(take(t, dir)); got != 4 { // three files and the head, no draft left
		t.Errorf("%d files", got)
	}
}

func TestOneWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l, err := (Options{}).Open(dir)
	must(t, err)
	if _, err := (Options{}).Open(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("second writer: %v", err)
	}
	must(t, l.Close())
	l, err = (Options{}).Open(dir)
	must(t, err)
	must(t, l.Close())
}

// A directory that is a link could lead anywhere.
func TestNoLinks(t *testing.T) {
	there, here := t.TempDir(), filepath.Join(t.TempDir(), "audit")
	must(t, os.Symlink(there, here))
	if l, err := (Options{}).Open(here); err == nil {
		l.Close()
		t.Error("opened a log through a link")
	}
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Join(there, "file"), filepath.Join(dir, fileName(1))))
	if l, err := (Options{}).Open(dir); err == nil {
		l.Close()
		t.Error("opened a file through a link")
	}
}

// Sessions continue one chain, and one without events leaves no trace.
func TestSessions(t *testing.T) {
	dir := t.TempDir()
	o := Options{pace: fast}
	for i := range 5 {
		write(t, o, dir, i*3, 3)
		before := take(t, dir)
		write(t, o, dir, 0, 0)
		if after := take(t, dir); !reflect.DeepEqual(before, after) {
			t.Errorf("a session without events changed the log:\n%v\n%v", before, after)
		}
	}
	if got, want := hosts(t, dir), numbered(0, 15); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if s := verified(t, dir); s.Events != 15 {
		t.Errorf("summary %+v", s)
	}
	if r := records(t, dir, KindRecovered); len(r) > 0 {
		t.Errorf("recovered without need: %+v", r)
	}
}

// A log that was never written is in order.
func TestEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	for range 2 {
		if s := verified(t, dir); !reflect.DeepEqual(s, Summary{}) {
			t.Errorf("summary %+v", s)
		}
		must(t, Read(dir, Filter{}, func(Record) error { return errors.New("a record") }))
		write(t, Options{}, dir, 0, 0)
	}
}

// At most so many files of such a size, and it is known what is gone.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	total := 0
	for session := range 6 {
		write(t, small, dir, total, 17)
		total += 17
		s := verified(t, dir)
		if int(s.Rotated)+s.Events != total {
			t.Errorf("session %d: %d events gone and %d there are not %d", session, s.Rotated, s.Events, total)
		}
		all := hosts(t, dir)
		if want := numbered(total-len(all), total); !reflect.DeepEqual(all, want) {
			t.Errorf("got %v, want %v", all, want)
		}
		var size int
		for _, text := range take(t, dir) {
			size += len(text)
		}
		if most := 3*(2000+500) + 1000; size > most {
			t.Errorf("%d bytes, more than %d", size, most)
		}
	}
	if numbers, _ := listFiles(dir); len(numbers) != 3 || numbers[0] < 5 {
		t.Errorf("files %v", numbers)
	}
}

// The bounds can be others the next time.
func TestRotationWithOtherBounds(t *testing.T) {
	dir := t.TempDir()
	write(t, Options{FileSize: 2000, Files: 10, pace: fast}, dir, 0, 40)
	if numbers, _ := listFiles(dir); len(numbers) < 6 {
		t.Fatalf("files %v", numbers)
	}
	write(t, Options{FileSize: 1000, Files: 2, pace: fast}, dir, 40, 20)
	if numbers, _ := listFiles(dir); len(numbers) != 2 {
		t.Errorf("files %v", numbers)
	}
	if s := verified(t, dir); int(s.Rotated)+s.Events != 60 {
		t.Errorf("summary %+v", s)
	}
}

// While events are added, a reader at any moment finds a log that is in order.
func TestVerifyMeanwhile(t *testing.T) {
	dir := t.TempDir()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			s, err := Verify(dir)
			if err != nil || len(s.Problems) > 0 {
				t.Errorf("%v, %q", err, s.Problems)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	const sessions = 100
	for i := range sessions {
		write(t, small, dir, 20*i, 20)
	}
	close(done)
	<-ended
	if s := verified(t, dir); int(s.Rotated)+s.Events != 20*sessions {
		t.Errorf("summary %+v", s)
	}
}
