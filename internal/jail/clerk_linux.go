package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/cofferhq/coffer/internal/confine"
	"golang.org/x/sys/unix"
)

// A clerk changes the modes, owners, times and extended attributes of files for the
// programs in a jail, which may not do it themselves: Landlock knows no such right, and a
// filter cannot see which file a call is about.
//
// The kernel holds the calling thread, and hands the clerk the call's arguments. The clerk
// never lets a call go through after a look at it, because what it looked at may be
// something else a moment later. It opens the file itself, as the program would; sees by
// the open file where it lies; and makes the change to what it has open. So a program
// that plays tricks with names or memory meanwhile changes some file of its own, or none.
//
// The clerk has no privilege that the programs lack, but it can be talked into opening
// everything that the user can open, so it opens things only to name them (O_PATH).
type clerk struct {
	questions int
	write     []string
}

// question is the kernel's struct seccomp_notif.
type question struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// answer is the kernel's struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// stillThere is SECCOMP_IOCTL_NOTIF_ID_VALID.
const stillThere = 0x40082102

// newClerk makes a clerk for files beneath some directories.
func newClerk(questions int, write []string) (*clerk, error) {
	// The kernel may know more fields than we do, and would write them.
	var sizes [3]uint16
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	if errno != 0 {
		return nil, fmt.Errorf("ask the kernel about its questions: %w", errno)
	}
	if sizes[0] > uint16(unsafe.Sizeof(question{})) || sizes[1] > uint16(unsafe.Sizeof(answer{})) {
		return nil, errors.New("this kernel asks questions in a way that is not understood")
	}
	return &clerk{questions, write}, nil
}

// serve answers until this process ends.
func (c *clerk) serve() {
	runtime.LockOSThread()
	// No more rights than those who ask.
	if confine.NoNewPrivs() != nil || confine.DropCapabilities() != nil {
		unix.Close(c.questions) // then every such call fails
		return
	}
	for {
		var q question
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.questions), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&q)))
		if errno == unix.EINTR || errno == unix.ENOENT { // who asked is gone
			continue
		}
		if errno != 0 {
			unix.Close(c.questions)
			return
		}
		a := answer{id: q.id}
		if err := c.decide(&q); err != nil {
			a.errno = -int32(errnoOf(err))
		}
		unix.Syscall(unix.SYS_IOCTL, uintptr(c.questions), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a)))
	}
}

func errnoOf(err error) unix.Errno {
	var no unix.Errno
	if errors.As(err, &no) && no != 0 {
		return no
	}
	return unix.EPERM
}

// A call says how a system call names its file, by the numbers of its arguments, and what
// it changes.
type call struct {
	fd, path, flags int // -1 if it has none
	nofollow        bool
	change          change
}

// A change reads what a question says about it, all of it, and returns how to make it.
type change func(q *question) (apply func(file int) error, err error)

const none = -1

// calls are those that a filter with AskAttributes asks about.
var calls = sync.OnceValue(func() map[int32]call {
	all := map[int32]call{
		unix.SYS_FCHMOD:       {0, none, none, false, chmodTo(1)},
		unix.SYS_FCHMODAT:     {0, 1, none, false, chmodTo(2)},
		unix.SYS_FCHMODAT2:    {0, 1, 3, false, chmodTo(2)},
		unix.SYS_FCHOWN:       {0, none, none, false, chownTo(1)},
		unix.SYS_FCHOWNAT:     {0, 1, 4, false, chownTo(2)},
		unix.SYS_UTIMENSAT:    {0, 1, 3, false, timesTo(2, nanoseconds)},
		unix.SYS_SETXATTR:     {none, 0, none, false, setXattr},
		unix.SYS_LSETXATTR:    {none, 0, none, true, setXattr},
		unix.SYS_FSETXATTR:    {0, none, none, false, setXattr},
		unix.SYS_REMOVEXATTR:  {none, 0, none, false, removeXattr},
		unix.SYS_LREMOVEXATTR: {none, 0, none, true, removeXattr},
		unix.SYS_FREMOVEXATTR: {0, none, none, false, removeXattr},
	}
	addOlder(all)
	return all
})

// decide makes one change, or says why not.
func (c *clerk) decide(q *question) error {
	call, ok := calls()[q.nr]
	if !ok {
		return unix.ENOSYS
	}
	apply, err := call.change(q)
	if err != nil {
		return err
	}
	file, err := c.open(q, call)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	// Had who asked died meanwhile, the process with its number would be another.
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.questions), stillThere, uintptr(unsafe.Pointer(&q.id))); errno != 0 {
		return errno
	}
	if !c.owns(file) {
		return unix.EACCES // as Landlock says it
	}
	return apply(file)
}

// owns says whether an open file lies where the programs may write.
func (c *clerk) owns(file int) bool {
	path, err := os.Readlink(magic(file))
	if err != nil || !filepath.IsAbs(path) {
		return false
	}
	return within(path, c.write)
}

func magic(file int) string { return fmt.Sprintf("/proc/self/fd/%d", file) }

// open opens the file that a call is about, for nothing but to name it.
func (c *clerk) open(q *question, call call) (int, error) {
	flags := uint64(0)
	if call.flags >= 0 {
		flags = q.args[call.flags]
	}
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return -1, unix.EINVAL
	}
	name := ""
	if call.path >= 0 && q.args[call.path] != 0 {
		var err error
		if name, err = q.text(q.args[call.path], unix.PathMax); err != nil {
			return -1, err
		}
		if name == "" && flags&unix.AT_EMPTY_PATH == 0 {
			return -1, unix.ENOENT
		}
	} else if call.path >= 0 && q.nr != unix.SYS_UTIMENSAT { // whose name may be left out
		return -1, unix.EFAULT
	}
	base := fmt.Sprintf("/proc/%d/cwd", q.pid)
	if call.fd >= 0 && int32(q.args[call.fd]) != unix.AT_FDCWD {
		base = fmt.Sprintf("/proc/%d/fd/%d", q.pid, int32(q.args[call.fd]))
	}
	if filepath.IsAbs(name) {
		base = "/"
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	at, err := unix.Openat2(unix.AT_FDCWD, base, &how)
	if err == unix.ENOENT {
		err = unix.EBADF
	}
	if err != nil || name == "" {
		return at, err
	}
	defer unix.Close(at)
	if call.nofollow || flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	return unix.Openat2(at, q.asOurs(name), &how)
}

// asOurs replaces names by which a process calls itself: they would mean this one.
func (q *question) asOurs(name string) string {
	self := fmt.Sprintf("/proc/%d/", q.pid)
	for from, to := range map[string]string{"/proc/self/": self, "/proc/thread-self/": self, "/dev/fd/": self + "fd/"} {
		if rest, ok := strings.CutPrefix(name, from); ok {
			return to + rest
		}
	}
	return name
}

// text reads a string from the memory of who asked, of less than limit bytes.
func (q *question) text(address uint64, limit int) (string, error) {
	buf := make([]byte, limit)
	have := 0
	for have < limit {
		// Not beyond the end of a page: the next may not be there.
		n := min(limit-have, 4096-int((address+uint64(have))%4096))
		got, err := q.read(address+uint64(have), buf[have:have+n])
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(buf[have:have+got], 0); i >= 0 {
			return string(buf[:have+i]), nil
		}
		have += got
	}
	return "", unix.ENAMETOOLONG
}

// read fills buf from the memory of who asked.
func (q *question) read(address uint64, buf []byte) (int, error) {
	if len(buf) == 0 {
		return 0, nil
	}
	ours := []unix.Iovec{{Base: &buf[0]}}
	ours[0].SetLen(len(buf))
	n, err := unix.ProcessVMReadv(int(q.pid), ours, []unix.RemoteIovec{{Base: uintptr(address), Len: len(buf)}}, 0)
	if err == nil && n < len(buf) {
		err = unix.EFAULT
	}
	return n, err
}
