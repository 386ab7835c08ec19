package linktest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ordinary is the user that root's tests become as well. It needs no account.
const ordinary = 64646

// Users are those to run a test for: whoever runs it, and an ordinary user when that
// is root.
func Users() []int {
	if os.Getuid() == 0 {
		return []int{0, ordinary}
	}
	return []int{os.Getuid()}
}

// A Prepare makes the network inside a namespace, and returns the descriptors that go
// out.
type Prepare func() ([]*os.File, error)

// The child is told by its environment what to be: the name of a Prepare, and which of
// the two steps into the namespace it is.
const (
	nameVariable = "COFFER_LINKTEST"
	stepVariable = "COFFER_LINKTEST_STEP"
	channel      = 3 // the descriptor of the child's socket to its parent
	maxFiles     = 16
)

// Main is for TestMain: it runs the tests, or, in a child, one of the Prepares.
func Main(m *testing.M, prepares map[string]Prepare) {
	name := os.Getenv(nameVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(stepVariable) == "" {
		os.Exit(enter(name))
	}
	serve(prepares[name])
	os.Exit(0)
}

// A Namespace is a prepared network namespace, and a child in it that makes sockets.
type Namespace struct {
	Files []*os.File // what its Prepare returned

	mu    sync.Mutex
	child *os.File
}

// NewNamespace prepares a namespace as a user. It goes with the test.
func NewNamespace(t testing.TB, uid int, prepare string) *Namespace {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := &Namespace{child: os.NewFile(uintptr(pair[0]), "child")}
	theirs := os.NewFile(uintptr(pair[1]), "parent")
	defer theirs.Close()

	c := exec.Command("/proc/self/exe")
	c.Env = []string{nameVariable + "=" + prepare, "PATH=/usr/bin:/bin"}
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{theirs}
	if uid != os.Getuid() {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if err := c.Start(); err != nil {
		t.Fatalf("start a child in a namespace: %v", err)
	}
	t.Cleanup(func() {
		n.child.Close() // it ends when nobody asks any more
		c.Wait()
	})
	var why string
	if n.Files, why, err = n.receive(); err != nil || why != "" {
		t.Fatalf("prepare %q in a namespace: %s%v", prepare, why, err)
	}
	return n
}

// Socket makes a socket in the namespace. It is not blocking.
func (n *Namespace) Socket(domain, kind, protocol int) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b [12]byte
	for i, v := range []int{domain, kind, protocol} {
		binary.NativeEndian.PutUint32(b[4*i:], uint32(v))
	}
	if _, err := n.child.Write(b[:]); err != nil {
		return -1, err
	}
	files, why, err := n.receive()
	if err != nil {
		return -1, err
	}
	if why != "" || len(files) != 1 {
		return -1, fmt.Errorf("socket(%d, %d, %d): %s", domain, kind, protocol, why)
	}
	defer files[0].Close()
	return unix.FcntlInt(files[0].Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// receive gets the child's answer: files, or a reason why there are none.
func (n *Namespace) receive() (files []*os.File, why string, err error) {
	b, control := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*maxFiles))
	size, controlSize, _, _, err := unix.Recvmsg(int(n.child.Fd()), b, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, "", err
	}
	if size == 0 {
		return nil, "", io.ErrUnexpectedEOF
	}
	messages, err := unix.ParseSocketControlMessage(control[:controlSize])
	if err != nil {
		return nil, "", err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, "", err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "from the namespace"))
		}
	}
	return files, string(b[1:size]), nil
}

// enter is the first step of the child: it is the right user already, and starts
// itself again as root of new namespaces.
func enter(name string) int {
	c := exec.Command("/proc/self/exe")
	c.Env = []string{nameVariable + "=" + name, stepVariable + "=2", "PATH=/usr/bin:/bin"}
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{os.NewFile(channel, "parent")}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	runtime.LockOSThread() // the child would get its signal when the thread ends
	if err := c.Run(); err != nil {
		reply(nil, fmt.Errorf("as root of new namespaces: %w", err))
		return 1
	}
	return 0
}

// serve is the second step: prepare, then make sockets until nobody asks any more.
func serve(prepare Prepare) {
	if prepare == nil {
		reply(nil, errors.New("no such preparation"))
		return
	}
	files, err := prepare()
	if reply(files, err); err != nil {
		return
	}
	for _, f := range files {
		f.Close()
	}
	var b [12]byte
	for {
		n, err := unix.Read(channel, b[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != len(b) {
			return
		}
		arg := func(i int) int { return int(int32(binary.NativeEndian.Uint32(b[4*i:]))) }
		fd, err := unix.Socket(arg(0), arg(1)|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, arg(2))
		if err != nil {
			reply(nil, err)
			continue
		}
		f := os.NewFile(uintptr(fd), "socket")
		reply([]*os.File{f}, nil)
		f.Close()
	}
}

// reply sends files or an error to the parent.
func reply(files []*os.File, err error) {
	text := []byte{0} // a message without bytes would look like the end
	if err != nil {
		text = append(text, err.Error()...)
	}
	var fds []int
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			continue
		}
		raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }) // Fd would make it blocking
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	unix.Sendmsg(channel, text, rights, nil, 0)
}
