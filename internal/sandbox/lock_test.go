package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLock(t *testing.T) {
	s := newStore(t)
	sb, first, err := s.Create(stay("web"))
	if err != nil {
		t.Fatal(err)
	}
	flags, err := unix.FcntlInt(uintptr(first.fd.Load()), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("programs inherit the lock: flags %x, %v", flags, err)
	}
	if _, err := sb.Lock(); !errors.Is(err, ErrRunning) || !sb.Running() {
		t.Errorf("got %v, running %v", err, sb.Running())
	}
	if err := sb.Remove(nil); !errors.Is(err, ErrRunning) {
		t.Errorf("removed while running: %v", err)
	}
	first.Release()
	first.Release()
	if sb.Running() {
		t.Error("runs after release")
	}
	if err := first.Remove(nil); err == nil {
		t.Error("removed with a lock given back")
	}
	if _, err := first.File(); err == nil {
		t.Error("handed over a lock given back")
	}
	second, err := sb.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Remove(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Lock(); !errors.Is(err, ErrNotFound) || sb.Running() {
		t.Errorf("got %v, running %v", err, sb.Running())
	}
	if err := sb.Remove(nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestLockOutlivesGarbageCollection(t *testing.T) {
	s := newStore(t)
	sb, _, err := s.Create(stay("web"))
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC()
	if !sb.Running() {
		t.Error("the garbage collector stopped a sandbox")
	}
}

// Looking must not keep anybody from starting a sandbox.
func TestRunningDoesNotDisturb(t *testing.T) {
	s := newStore(t)
	sb := create(t, s, stay("web"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					sb.Running()
				}
			}
		})
	}
	for range 500 {
		lock, err := sb.Lock()
		if err != nil {
			t.Error(err)
			break
		}
		lock.Release()
	}
	close(stop)
	wg.Wait()
}

func TestKilledOwner(t *testing.T) {
	s := newStore(t)
	p := start(t, nil, "hold", s.Dir())
	sb, err := s.Get(p.line(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(nil); err != nil || !sb.Running() {
		t.Fatalf("running %v, %v", sb.Running(), err)
	}
	only(t, s, sb.ID)
	p.kill()
	if sb.Running() {
		t.Error("runs without an owner")
	}
	if err := s.Sweep(nil); err != nil {
		t.Error(err)
	}
	only(t, s)
}

func TestHandOver(t *testing.T) {
	s := newStore(t)
	sb, lock, err := s.Create(throwAway())
	if err != nil {
		t.Fatal(err)
	}
	f, err := lock.File()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, []*os.File{f}, "adopt", s.Dir(), sb.ID)
	f.Close()
	p.line(t)
	lock.Release()
	if err := s.Sweep(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Lock(); !errors.Is(err, ErrRunning) {
		t.Errorf("the child does not hold it: %v", err)
	}
	p.kill()
	lock, err = sb.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()

	wrong, err := os.Open(filepath.Join(sb.Dir(), recordName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Adopt(wrong); err == nil {
		t.Error("adopted another file")
	}
	outsider, err := os.OpenFile(filepath.Join(sb.Dir(), lockName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Adopt(outsider); !errors.Is(err, ErrRunning) {
		t.Errorf("adopted a lock that another holds: %v", err)
	}
}
