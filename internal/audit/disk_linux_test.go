package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

// A disk can be full in two ways: a file system without room, and a limit on the size of
// a file, which stops a write within a line and needs no rights. Both are of the child
// process only.
func init() {
	for how, disk := range map[string]func(string) (fill, free func() error, err error){
		"tmpfs": smallTmpfs, "limit": fileLimit,
	} {
		children["full-"+how] = func(dir string) error {
			fill, free, err := disk(dir)
			if err != nil {
				return err
			}
			return fullDisk(filepath.Join(dir, "audit"), fill, free)
		}
		children["close-"+how] = func(dir string) error {
			fill, free, err := disk(dir)
			if err != nil {
				return err
			}
			return closeOnFullDisk(filepath.Join(dir, "audit"), fill, free)
		}
	}
}

func smallTmpfs(dir string) (fill, free func() error, err error) {
	err = syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k")
	}
	if err != nil {
		return nil, nil, err
	}
	filler := filepath.Join(dir, "filler")
	fill = func() error {
		f, err := os.Create(filler)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(f, zeros{})
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("the disk did not get full: %w", err)
		}
		return nil
	}
	return fill, func() error { return os.Remove(filler) }, nil
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func fileLimit(dir string) (fill, free func() error, err error) {
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return nil, nil, err
	}
	fill = func() error {
		info, err := os.Stat(filepath.Join(dir, "audit", fileName(1)))
		if err != nil {
			return err
		}
		// Room for a third of a line.
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(info.Size()) + 100, Max: was.Max})
	}
	return fill, func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was) }, nil
}

// fullDisk adds events while the disk gets full and empty again, twice. In the end all
// are accounted for.
func fullDisk(dir string, fill, free func() error) error {
	p := fast
	p.queue, p.tick = 32<<10, time.Millisecond
	l, err := Options{pace: p}.Open(dir)
	if err != nil {
		return err
	}
	added := int64(0)
	add := func() { l.Add(flow); added++ }
	for round := range 2 {
		for range 10 {
			add()
		}
		if err := waitFor(context.Background(), dir, KindFlow, 10*(round+1)); err != nil {
			return err
		}
		if err := fill(); err != nil {
			return err
		}
		for full := false; !full; runtime.Gosched() {
			add()
			l.mu.Lock()
			full = len(l.flood.summaries) > 0
			l.mu.Unlock()
		}
		if err := free(); err != nil {
			return err
		}
		for empty := false; !empty; runtime.Gosched() {
			l.mu.Lock()
			empty = l.waiting == 0 && len(l.flood.summaries) == 0
			l.mu.Unlock()
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	s, err := Verify(dir)
	if err != nil || len(s.Problems) > 0 {
		return fmt.Errorf("%q %w", s.Problems, err)
	}
	var sum, summaries int64
	err = Read(dir, Filter{}, func(r Record) error {
		if r.Count > 0 && (r.Kind != KindFlow || r.Host != flow.Host || r.Detail == "" || r.Sent != r.Count*flow.Sent) {
			return fmt.Errorf("summary: %+v", r)
		}
		summaries += r.Count
		sum += max(r.Count, 1)
		return nil
	})
	if err == nil && (sum != added || summaries == 0) {
		err = fmt.Errorf("%d were added, %d are accounted for: %+v", added, sum, s)
	}
	return err
}

// closeOnFullDisk ends a session that way. What was written stays in order.
func closeOnFullDisk(dir string, fill, free func() error) error {
	l, err := Options{pace: fast}.Open(dir)
	if err != nil {
		return err
	}
	l.Add(flow)
	if err := waitFor(context.Background(), dir, KindFlow, 1); err != nil {
		return err
	}
	if err := fill(); err != nil {
		return err
	}
	const more = 3000 // more than fits in what is left of a block
	for range more {
		l.Add(flow)
	}
	err = l.Close()
	if err == nil || !strings.Contains(err.Error(), "events could not be written") {
		return fmt.Errorf("close: %w", err)
	}
	if err := free(); err != nil {
		return err
	}
	if l, err = (Options{}).Open(dir); err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	s, err := Verify(dir)
	if err != nil || len(s.Problems) > 0 || s.Events == 0 || s.Events > more {
		return fmt.Errorf("%+v %w", s, err)
	}
	return waitFor(context.Background(), dir, KindRecovered, 1)
}

func TestFullDisk(t *testing.T) {
	for _, role := range []string{"full-limit", "close-limit", "full-tmpfs", "close-tmpfs"} {
		t.Run(role, func(t *testing.T) {
			c := child(t, role, t.TempDir())
			if strings.HasSuffix(role, "tmpfs") {
				c.SysProcAttr = testbed.Namespaces(t, 0)
			}
			if out, err := c.Output(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
