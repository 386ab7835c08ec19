package demo

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// machine are misdeeds against the host, its processes and its user's terminal.
var machine = []misdeed{
	{
		// The control does not write to the real /etc: it asks whether it could.
		name: "profile", title: "add a script to /etc/profile.d", who: root, asks: true,
		try: func(t target) (string, error) {
			if t.Bare {
				return "", unix.Access(filepath.Dir(profile(t.Token)), unix.W_OK)
			}
			return "", write(profile(t.Token), os.O_CREATE|os.O_EXCL, hostile)
		},
		harm: func(s *stage, r report) bool {
			if s.bare {
				return r.Errno == 0
			}
			return exists(profile(s.token))
		},
		wall: "no effect outside",
	},
	{
		name: "kill", title: "kill a process of yours",
		try:  func(t target) (string, error) { return "", kill(t.Process) },
		harm: func(s *stage, _ report) bool { return !s.bystander.lives() }, wall: "own process namespace",
	},
	{
		// What is typed outside cannot be seen there for certain, because coffer
		// throws away what waits in a terminal at the end. So an answer of "done"
		// counts as harm already, although it may have hit a terminal inside.
		name: "terminal", title: "type into your terminal (TIOCSTI)",
		try:  func(target) (string, error) { return "", typeInto("/dev/tty") },
		harm: func(s *stage, r report) bool { return r.Errno == 0 || s.typed > 0 }, wall: "seccomp: system call refused",
	},
	{
		// Harmless bare: the mount is in a namespace that ends with its one process.
		name: "namespace", title: "make a namespace and mount in it",
		try:  func(t target) (string, error) { return "", mountInNamespace(t.Work) },
		harm: worked, wall: "seccomp: system call refused",
	},
	{
		// Harmless: the program only prints its help.
		name: "setuid-run", title: "become root by a setuid program", who: ordinary,
		try:  func(target) (string, error) { return rootByProgram() },
		harm: func(_ *stage, r report) bool { return r.Loot == "0" }, wall: "no new privileges",
	},
	{
		name: "daemon", title: "leave a daemon running",
		try:  func(t target) (string, error) { return startDaemon(t.Work, t.Token) },
		harm: func(s *stage, _ report) bool { return locked(filepath.Join(s.work, daemonLock)) }, wall: "ended with its process namespace",
	},
}

func profile(token string) string { return "/etc/profile.d/coffer-demo-" + token + ".sh" }

// kill kills a process unless the number is one of our own in here.
func kill(pid int) error {
	if exists(fmt.Sprintf("/proc/self/task/%d", pid)) {
		return unix.ESRCH
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// typeInto types into a terminal as if the user did.
func typeInto(tty string) error {
	f, err := os.OpenFile(tty, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return sti(int(f.Fd()), '#')
}

func sti(fd int, char byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&char)))
	if errno != 0 {
		return errno
	}
	return nil
}

// mountInNamespace lays an empty file system over a directory, in the way that needs
// no rights outside: in a user namespace whose root we are.
func mountInNamespace(dir string) error {
	me, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(me, "demo", ActCommand, roleMount, dir)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return c.Run()
}

// rootByProgram runs a set-user-id program of the system and says as which user it
// ran. Only a process that has ended and is not yet collected stands still enough to
// be looked at.
func rootByProgram() (euid string, err error) {
	su, err := exec.LookPath("su")
	if err != nil {
		return "", unix.ENOENT
	}
	c := exec.Command(su, "--help")
	if err := c.Start(); err != nil {
		return "", err
	}
	defer c.Wait()
	for {
		err = unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	if err != nil {
		return "", err
	}
	_, ids, _ := strings.Cut(string(status), "\nUid:\t")
	if f := strings.Fields(ids); len(f) > 1 {
		euid = f[1]
	}
	return euid, nil
}

// daemonLock is a file in the repository that the daemon keeps locked while it lives.
const daemonLock = "daemon.lock"

// startDaemon leaves a process that has nothing to do with us any more, and returns
// its number. The token makes it recognisable.
func startDaemon(dir, token string) (string, error) {
	me, err := os.Executable()
	if err != nil {
		return "", err
	}
	c := exec.Command(me, "demo", ActCommand, roleDaemon, filepath.Join(dir, daemonLock), token)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return "", err
	}
	return strconv.Itoa(c.Process.Pid), nil
}

// locked says whether a live process holds a lock on the file.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
