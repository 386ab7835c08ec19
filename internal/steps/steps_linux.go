package steps

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// A List is what a process shall do.
type List struct {
	calls []Call
	what  []string // what each call is for
	keep  []any    // what the calls point to
	slots int
	free  []Slot // of these
	play  *play
}

// A Slot is where the result of a call is put, for later ones. There is no slot 0.
type Slot uint16

const maxSlots = 1023

// A Call is one line of a list.
type Call struct {
	Do     Action
	Into   Slot   // where to put the result
	Point  *int32 // where else to put it
	Anyway bool   // whatever comes of it

	number  uintptr
	args    [6]uintptr
	from    [6]Slot // arguments to take from slots
	forgive [3]syscall.Errno
	skip    int // how many calls to leave out after an error that was forgiven
}

// An Action is what there is besides making a call.
type Action uint8

// The actions.
const (
	Make  Action = iota // the call
	Await               // go on when there is a byte to read on the line, see Go; end without
	Stay                // do nothing until the other end of the line is closed
	Twin                // go on in a child of this process's parent, and end this one
	Hear                // get signals again
	Ready               // say so, and end: nothing is to be run
)

// Call adds a line.
func (l *List) Call(what string, number uintptr, args ...uintptr) *Call {
	c := Call{number: number}
	copy(c.args[:], args)
	l.calls = append(l.calls, c)
	l.what = append(l.what, what)
	return l.Last()
}

// Act adds an action.
func (l *List) Act(what string, do Action) { l.Call(what, 0).Do = do }

// Len is the number of lines, and At is one of them.
func (l *List) Len() int       { return len(l.calls) }
func (l *List) At(n int) *Call { return &l.calls[n] }

// Last is the line that was added last.
func (l *List) Last() *Call { return &l.calls[len(l.calls)-1] }

// What says what the first n lines are for.
func (l *List) What(n int) []string { return l.what[:n] }

// Before puts the lines of another list, which uses no slots, before those of this one.
func (l *List) Before(other *List) {
	l.calls, l.what = append(other.calls, l.calls...), append(other.what, l.what...)
	l.keep = append(l.keep, other.keep...)
}

// Slot is a slot that is not in use.
func (l *List) Slot() Slot {
	if n := len(l.free); n > 0 {
		s := l.free[n-1]
		l.free = l.free[:n-1]
		return s
	}
	l.slots++
	return Slot(l.slots)
}

// Result puts the result of a call into a slot.
func (l *List) Result(c *Call) Slot {
	c.Into = l.Slot()
	return c.Into
}

// Free closes descriptors that are in slots, which can be used for others then. These lines must
// not be among those that Forgive leaves out.
func (l *List) Free(slots ...Slot) {
	for _, s := range slots {
		l.Call("close", syscall.SYS_CLOSE).With(0, s)
	}
	l.free = append(l.free, slots...)
}

// Forgive accepts errors, and then leaves out the next n calls.
func (c *Call) Forgive(n int, errs ...syscall.Errno) *Call {
	copy(c.forgive[:], errs)
	c.skip = n
	return c
}

// With takes argument n from a slot.
func (c *Call) With(n int, from Slot) *Call {
	c.from[n] = from
	return c
}

// Text is a string as the kernel wants it.
func (l *List) Text(t string) uintptr { return l.Bytes(append([]byte(t), 0)) }

// Bytes are some that a call points to.
func (l *List) Bytes(b []byte) uintptr {
	l.keep = append(l.keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// Texts is a list of strings as the kernel wants it.
func (l *List) Texts(all []string) uintptr {
	list := make([]uintptr, len(all)+1)
	for i, t := range all {
		list[i] = l.Text(t)
	}
	l.keep = append(l.keep, list)
	return uintptr(unsafe.Pointer(&list[0]))
}

// Data is something that a call points to.
func Data[T any](l *List, v *T) uintptr {
	l.keep = append(l.keep, v)
	return uintptr(unsafe.Pointer(v))
}

// What the processes report.
const (
	saysError   = iota + 1 // and which call it was, and the error
	saysProgram            // the program's id
	saysReady              // that all is prepared, and nothing is to be run
)

type message [3]int32

func (m *message) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m))
}

// An Error is about a call that failed.
type Error struct {
	What string
	Err  syscall.Errno
}

func (e *Error) Error() string { return e.What + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// ErrReady is how a list ends by which nothing is to be run.
var ErrReady = errors.New("all is prepared")

// Making is what an [Error] is about if there could be no process at all.
const Making = "make namespaces"

// Run starts a process that makes the calls, and returns its process id, or that of the one
// that went on in its place, when it has become a program. It must be called on a locked
// thread that lives as long as the program is to, if that asks to be killed with its parent.
func (l *List) Run() (program int, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe", err)
	}
	read, write := os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	defer read.Close()
	pid, err := l.Fork(0, uintptr(fds[1]))
	write.Close()
	if err != nil {
		return 0, err
	}
	program, err = l.listen(read, pid)
	runtime.KeepAlive(l) // until nobody plays it any more
	return program, err
}

// listen reads what the processes say, until they have become something else.
func (l *List) listen(r io.Reader, pid int) (program int, failed error) {
	program = pid
	for {
		var m message
		if _, err := io.ReadFull(r, m.bytes()); err != nil {
			break
		}
		switch m[0] {
		case saysError:
			failed = l.Failure(m.bytes())
		case saysProgram:
			program = int(m[2])
		case saysReady:
			failed = ErrReady
		}
	}
	if failed == nil {
		return program, nil
	}
	for _, p := range []int{pid, program} { // what is left of a failed start
		for {
			if _, err := syscall.Wait4(p, nil, 0, nil); err != syscall.EINTR {
				break
			}
		}
	}
	return 0, failed
}

// Failure is the error that a process reports on its line, or nil if b is something else.
func (l *List) Failure(b []byte) error {
	var m message
	if copy(m.bytes(), b) < len(m.bytes()) || m[0] != saysError {
		return nil
	}
	what := "do something that is not on the list" // and yet it failed
	if n := int(m[1]); n >= 0 && n < len(l.what) {
		what = l.what[n]
	}
	return &Error{what, syscall.Errno(m[2])}
}

// Fork starts a process with the clone flags that makes the calls. What it has to say it
// says on a line. The list must be there for as long as there is this process, and nothing
// may be added to it but by Go.
func (l *List) Fork(flags uint64, line uintptr) (int, error) {
	if l.slots > maxSlots {
		return 0, errors.New("there are too many places")
	}
	if len(l.calls) == 0 {
		return 0, errors.New("there is nothing to do")
	}
	// Between blocking signals and hearing them again this must stay one thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l.play = &play{line: line}
	l.show()
	// What is added to the list may move it, and the process, whose stack nobody looks at, may
	// be in the middle of one of these calls then.
	l.keep = append(l.keep, l.calls)
	return fork(l.play, flags)
}

// show has the process see the list as it is now.
func (l *List) show() { l.play.calls, l.play.count = &l.calls[0], len(l.calls) }

// Go lets a process that awaits it go on, with what was added to the list since. That takes
// a process that shares our memory.
func (l *List) Go(ours *os.File) error {
	if l.slots > maxSlots {
		return errors.New("there are too many places")
	}
	l.show()
	_, err := ours.Write([]byte{0})
	return err
}

// Err is the error of a process that shares our memory, if it has failed.
func (l *List) Err() error {
	if l.play == nil {
		return nil
	}
	return l.play.err()
}
