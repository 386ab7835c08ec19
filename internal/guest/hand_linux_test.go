package guest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHandBy: who does not read does not hold up for ever who hands something over.
func TestHandBy(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := conn(t, ends[0]), conn(t, ends[1])
	defer ours.Close()
	defer theirs.Close()
	for err = nil; err == nil; { // until no more has room
		err = HandBy(time.Now(), ours, 1, []int{0})
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v instead of a deadline", err)
	}
	if _, err := io.ReadFull(theirs, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := HandBy(time.Now().Add(time.Minute), ours, 1, []int{0}); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}

// TestCarrier: descriptors that are handed over in the middle of a stream arrive, in order, and
// leave no trace in it, however it is read. Those of another batch are closed.
func TestCarrier(t *testing.T) {
	for _, size := range []int{1, 3, 4096} {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := conn(t, ends[0]), conn(t, ends[1])
		var files []*os.File
		for range 3 {
			f, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		hand := func(batch byte, some ...*os.File) {
			var fds []int
			for _, f := range some {
				fds = append(fds, int(f.Fd()))
			}
			if err := HandBy(time.Now().Add(time.Minute), ours, batch, fds); err != nil {
				t.Fatal(err)
			}
		}
		hand(7, files[0])
		ours.Write([]byte("first "))
		ours.Write([]byte("second "))
		hand(7, files[1], files[2])
		hand(6, files[0])
		ours.Write([]byte("third"))
		ours.Close()
		c := newCarrier(theirs)
		var got bytes.Buffer
		if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{c}, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if got.String() != "first second third" {
			t.Errorf("read %d at a time: %q", size, got.String())
		}
		stranger := c.fds[6]
		fds := c.take(7)
		if len(stranger) != 1 || unix.FcntlFlock(uintptr(stranger[0]), unix.F_GETLK, &unix.Flock_t{Type: unix.F_RDLCK}) != unix.EBADF {
			t.Errorf("what was handed over for something else is still open: %v", stranger)
		}
		if len(fds) != len(files) {
			t.Fatalf("read %d at a time: %d descriptors", size, len(fds))
		}
		for i, fd := range fds {
			var want, is unix.Stat_t
			unix.Fstat(int(files[i].Fd()), &want)
			unix.Fstat(fd, &is)
			if want.Ino != is.Ino {
				t.Errorf("descriptor %d is another file", i)
			}
			unix.Close(fd)
		}
		theirs.Close()
	}
}

func conn(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.UnixConn)
}
