package jail

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// moments calls a function with many delays, which go from the start of a jail to some time
// after its program has been started. Where processes have no namespace of their own, it
// does so once more.
func moments(t *testing.T, f func(t *testing.T, s *stage, w written, after time.Duration)) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		for name, bare := range map[string]bool{"apart": false, "bare": true} {
			t.Run(name, func(t *testing.T) {
				s := newStage(t, b)
				s.needNamespaces(t)
				begun := time.Now()
				if r := s.run(t, s.policy("true")); r.code != 0 {
					t.Fatal(r)
				}
				const many = 40
				whole := time.Since(begun)
				for i := range many {
					w := s.policy("sleep", "1000")
					w.Bare = bare
					if f(t, s, w, whole*time.Duration(i)/many); t.Failed() {
						return
					}
				}
			})
		}
	})
}

// Whenever coffer is killed, nobody is left behind, and whenever it is asked to end, no names
// are either.
func TestEndedAtAnyMoment(t *testing.T) {
	moments(t, func(t *testing.T, s *stage, w written, after time.Duration) {
		for _, sig := range []syscall.Signal{unix.SIGKILL, unix.SIGTERM} {
			// All that belongs to the jail hold it, and its reader sees their end.
			r, held, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			c := s.command(t, w)
			c.Stdout = held
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			held.Close()
			time.Sleep(after)
			_ = c.Process.Signal(sig)
			r.SetReadDeadline(time.Now().Add(2 * time.Minute))
			if _, err := r.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				t.Errorf("%v after %v: somebody is left: %v", sig, after, err)
				_ = c.Process.Kill()
			}
			_ = c.Wait()
			left, err := os.ReadDir(s.Work)
			if err != nil || sig == unix.SIGTERM && len(left) > 0 {
				t.Errorf("%v after %v: there is %v, %v", sig, after, left, err)
			}
			for _, l := range left {
				os.Remove(filepath.Join(s.Work, l.Name()))
			}
		}
	})
}

// A key of the terminal ends the program, though it may not have been there yet.
func TestInterruptedAtAnyMoment(t *testing.T) {
	moments(t, func(t *testing.T, s *stage, w written, after time.Duration) {
		c, tty := s.onTerminal(t, w)
		defer tty.Close()
		time.Sleep(after)
		if _, err := tty.Write([]byte{3}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { c.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Errorf("after %v: it was not interrupted", after)
			c.Process.Kill()
			<-ended
		}
	})
}
