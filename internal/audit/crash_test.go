package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// await reads until n events of a kind have been seen.
func await(t testing.TB, dir, kind string, n int) {
	t.Helper()
	must(t, waitFor(t.Context(), dir, kind, n))
}

func waitFor(ctx context.Context, dir, kind string, n int) error {
	enough := errors.New("enough")
	err := Follow(ctx, dir, Filter{Kinds: []string{kind}}, func(Record) error {
		if n--; n <= 0 {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		return nil
	}
	return fmt.Errorf("waiting for %d more events of kind %s: %w", n, kind, err)
}

func init() {
	// Adds flows to hosts that go on from where the log ends, until it is killed.
	children["add"] = func(dir string) error {
		next := 0
		if err := Read(dir, Filter{Kinds: []string{KindFlow}}, func(Record) error { next++; return nil }); err != nil {
			return err
		}
		l, err := untilKilled.Open(dir)
		if err != nil {
			return err
		}
		for ; ; next++ {
			e := flow
			e.Host = fmt.Sprintf("host-%d", next)
			l.Add(e)
			time.Sleep(10 * time.Microsecond) // so that it does not all happen at once
		}
	}
}

var untilKilled = Options{FileSize: 2000, Files: 1 << 20, Throwaway: true, pace: fast}

// child starts this binary in a role.
func child(t testing.TB, role, dir string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], dir)
	c.Env = append(os.Environ(), childEnv+"="+role)
	c.Stderr = os.Stderr
	return c
}

// A killed writer leaves a log that is in order and goes on.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	const rounds = 5
	events := 0
	for round := range rounds {
		c := child(t, "add", dir)
		must(t, c.Start())
		await(t, dir, KindFlow, events+20*(round+1))
		must(t, c.Process.Kill())
		_ = c.Wait()
		s := verified(t, dir)
		if s.Events < events+20*(round+1) {
			t.Errorf("%d events, %d were seen", s.Events, events+20*(round+1))
		}
		events = s.Events
	}
	write(t, untilKilled, dir, events, 1)
	verified(t, dir)
	if got, want := hosts(t, dir), numbered(0, events+1); !reflect.DeepEqual(got, want) {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
	recovered := records(t, dir, KindRecovered)
	if len(recovered) != rounds {
		t.Errorf("%d recovered events, want %d", len(recovered), rounds)
	}
	for _, r := range recovered {
		if r.Reason != "" || !strings.Contains(r.Detail, "not closed") {
			t.Errorf("recovered: %q, %q", r.Detail, r.Reason)
		}
	}
}

// unclosed returns the files of a log that is not closed: one session that was, then one of
// which the head knows nothing yet.
func unclosed(t *testing.T) snapshot {
	t.Helper()
	dir := t.TempDir()
	o := Options{FileSize: 1300, Throwaway: true, pace: fast}
	write(t, o, dir, 0, 5)
	l, err := o.Open(dir)
	must(t, err)
	defer l.Close()
	for i := range 2 {
		e := flow
		e.Host = fmt.Sprintf("host-%d", 5+i)
		l.Add(e)
	}
	await(t, dir, KindFlow, 7)
	return take(t, dir)
}

// Wherever a crash cuts the end: what the head does not know can be unfinished, what it
// knows must be there.
func TestTorn(t *testing.T) {
	whole := unclosed(t)
	h, err := parseHead([]byte(whole[headName]))
	must(t, err)
	if h.events != 5 || h.closed {
		t.Fatalf("head %+v", h)
	}
	last := fileName(h.number)
	text := whole[last]
	if int64(len(text)) < h.size+500 {
		t.Fatalf("%d bytes, the head knows %d", len(text), h.size)
	}
	for size := range len(text) + 1 {
		if size%7 > 0 && text[max(0, size-1)] != '\n' && text[min(size, len(text)-1)] != '\n' {
			continue // like its neighbours
		}
		dir := t.TempDir()
		whole.put(t, dir)
		must(t, os.Truncate(filepath.Join(dir, last), int64(size)))
		s, err := Verify(dir)
		must(t, err)
		if missing := int64(size) < h.size; missing != (len(s.Problems) > 0) {
			t.Fatalf("cut at %d of %d, of which the head knows %d: %q", size, len(text), h.size, s.Problems)
		}
		end := strings.LastIndexByte(text[:size], '\n') + 1
		if s.Torn != int64(size-end) {
			t.Fatalf("cut at %d: %d bytes unfinished, want %d", size, s.Torn, size-end)
		}
		events := s.Events
		write(t, Options{Throwaway: true, pace: fast}, dir, events, 1)
		again, err := Verify(dir)
		must(t, err)
		if len(again.Problems) != len(s.Problems) || again.Torn != 0 {
			t.Fatalf("cut at %d: problems were %q and are %q", size, s.Problems, again.Problems)
		}
		if got, want := hosts(t, dir), numbered(0, events+1); !reflect.DeepEqual(got, want) {
			t.Fatalf("cut at %d: %v, want %v", size, got, want)
		}
		r := records(t, dir, KindRecovered)
		if len(r) != 1 || strings.Contains(r[0].Detail, "not finished") != (size > end) {
			t.Fatalf("cut at %d: recovered %+v", size, r)
		}
	}
}

// A crash may come between a new file and its first line, or before the old one is removed.
func TestCrashInRotation(t *testing.T) {
	for name, start := range map[string]string{"empty": "", "torn": `{"seq":5,"time"`} {
		t.Run(name, func(t *testing.T) {
			whole := unclosed(t)
			whole[fileName(3)] = start
			dir := t.TempDir()
			whole.put(t, dir)
			verified(t, dir)
			write(t, small, dir, 7, 2)
			if s := verified(t, dir); s.Events != 9 {
				t.Errorf("summary %+v", s)
			}
			if got, want := hosts(t, dir), numbered(0, 9); !reflect.DeepEqual(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	t.Run("old file left", func(t *testing.T) {
		dir := t.TempDir()
		write(t, small, dir, 0, 14)
		before := take(t, dir)
		write(t, small, dir, 14, 5)
		numbers, err := listFiles(dir)
		must(t, err)
		left := fileName(numbers[0] - 1)
		if before[left] == "" {
			t.Fatalf("%v, there was no %s", numbers, left)
		}
		must(t, os.WriteFile(filepath.Join(dir, left), []byte(before[left]), 0o600))
		if s := verified(t, dir); s.Events+int(s.Rotated) != 19 {
			t.Errorf("summary %+v", s)
		}
		write(t, small, dir, 19, 10)
		if _, err := os.Stat(filepath.Join(dir, left)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", left)
		}
		verified(t, dir)
	})
}
