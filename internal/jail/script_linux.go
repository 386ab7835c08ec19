package jail

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A script is a list of system calls that a forked process makes before it becomes the
// program.
//
// A user namespace can be made only by a process with one thread, and a Go program never
// is one. The usual way around is to start the program's own binary a second time, in the
// namespaces; that costs a second start of a Go runtime, more than all else together. So
// here everything is decided before the fork, in ordinary Go, and the forked process has
// nothing to do but to make the calls. It has this process's memory, or a copy in which no
// other thread goes on, and is unknown to the Go runtime, so it must not allocate, grow its
// stack, or wait for anybody: play is all the Go that runs there.
type script struct {
	calls []systemCall
	what  []string // what each call is for
	keep  []any    // what the calls point to
	slots int
	play  *play
}

// A slot is where the result of a call is put, for later ones. There is no slot 0.
type slot uint16

const maxSlots = 1023

// A systemCall is one line of a script.
type systemCall struct {
	number  uintptr
	args    [6]uintptr
	from    [6]slot // arguments to take from slots
	into    slot
	forgive [3]unix.Errno
	skip    int // how many calls to leave out after an error that was forgiven
	do      action
	point   *int32 // where else to put the result
	anyway  bool   // whatever comes of it
}

// An action is what there is besides making a call.
type action uint8

const (
	doCall  action = iota
	doStay         // do nothing until the process outside is gone
	doTwin         // go on in a child of this process's parent, and end this one
	doHear         // get signals again
	doReady        // say so, and end: nothing is to be run
)

// call adds a line.
func (s *script) call(what string, number uintptr, args ...uintptr) *systemCall {
	c := systemCall{number: number}
	copy(c.args[:], args)
	s.calls = append(s.calls, c)
	s.what = append(s.what, what)
	return &s.calls[len(s.calls)-1]
}

// result puts the result of a call into a new slot.
func (s *script) result(c *systemCall) slot {
	s.slots++
	c.into = slot(s.slots)
	return c.into
}

// forgiving accepts an error, and then leaves out the next n calls.
func (c *systemCall) forgiving(n int, errs ...unix.Errno) *systemCall {
	copy(c.forgive[:], errs)
	c.skip = n
	return c
}

// with takes argument n from a slot.
func (c *systemCall) with(n int, from slot) *systemCall {
	c.from[n] = from
	return c
}

// text is a string as the kernel wants it.
func (s *script) text(t string) uintptr {
	b := append([]byte(t), 0)
	s.keep = append(s.keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// texts is a list of strings as the kernel wants it.
func (s *script) texts(all []string) uintptr {
	list := make([]uintptr, len(all)+1)
	for i, t := range all {
		list[i] = s.text(t)
	}
	s.keep = append(s.keep, list)
	return uintptr(unsafe.Pointer(&list[0]))
}

// data is something that a call points to.
func data[T any](s *script, v *T) uintptr {
	s.keep = append(s.keep, v)
	return uintptr(unsafe.Pointer(v))
}

// What the forked processes report, as pairs of 32-bit numbers.
const (
	saysError   = iota + 1 // and which call it was, and the error
	saysProgram            // the program's id
	saysReady              // that all is prepared, and nothing is to be run
)

type message [3]int32

func (m *message) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m))
}

// A stageError is about a call that failed.
type stageError struct {
	what string
	err  unix.Errno
}

func (e *stageError) Error() string { return e.what + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// start forks a process to play the script, and returns its process id, or that of the one
// that went on in its place, when the program runs. It must be called on a locked thread
// that lives as long as the program is to: the program is killed with it. If the script
// ends in doReady, the error is errReady, and nothing runs.
func (s *script) start() (program int, err error) {
	read, write, err := pipes()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	pid, err := s.fork(0, write.Fd(), 0)
	write.Close()
	if err != nil {
		return 0, err
	}
	program, err = s.listen(read, pid)
	runtime.KeepAlive(s) // until nobody plays it any more
	return program, err
}

func pipes() (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// listen reads what the forked processes say, until they have become something else.
func (s *script) listen(r io.Reader, pid int) (program int, failed error) {
	program = pid
	for {
		var m message
		if _, err := io.ReadFull(r, m.bytes()); err != nil {
			break
		}
		switch m[0] {
		case saysError:
			failed = &stageError{s.what[m[1]], unix.Errno(m[2])}
		case saysProgram:
			program = int(m[2])
		case saysReady:
			failed = errReady
		}
	}
	if failed == nil {
		return program, nil
	}
	for _, p := range []int{pid, program} { // what is left of a failed start
		for {
			if _, err := unix.Wait4(p, nil, 0, nil); err != unix.EINTR {
				break
			}
		}
	}
	return 0, failed
}
