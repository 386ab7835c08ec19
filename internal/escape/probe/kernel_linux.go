package main

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernel are attempts on the kernel's more dangerous services.
var kernel = map[string]func([]string) error{
	"call":         call,
	"clone":        cloneInto,
	"umount":       func(a []string) error { return unix.Unmount(a[0], unix.MNT_DETACH) },
	"remount":      func(a []string) error { return unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"setattr":      clearReadOnly,
	"bind-over":    func(a []string) error { return unix.Mount(a[0], a[1], "", unix.MS_BIND, "") },
	"in-mount":     inMount,
	"bind-through": bindThrough,
	"setns":        enterNamespace,
	"socket":       newSocket,
	"compat32":     compat32,
	"x32":          x32,
	"uffd":         func([]string) error { return opened(rawCall(unix.SYS_USERFAULTFD, 1)) },
	"persona":      personality,
	"hostname":     func(a []string) error { return unix.Sethostname([]byte(a[0])) },
	"add-key":      addKey,
	"write-text":   func(a []string) error { return writeText(a[0], a[1]) },
}

// bad is a pointer to nowhere.
const bad = ^uintptr(0) - 4095

// calls are system calls with arguments that do nothing wherever they arrive.
var calls = map[string][7]uintptr{
	"mount":          {unix.SYS_MOUNT, bad, bad, bad, 0, bad},
	"umount2":        {unix.SYS_UMOUNT2, bad, 0},
	"fsopen":         {unix.SYS_FSOPEN, bad, 0},
	"fsconfig":       {unix.SYS_FSCONFIG, bad, 0, 0, 0, 0},
	"fsmount":        {unix.SYS_FSMOUNT, bad, 0, 0},
	"fspick":         {unix.SYS_FSPICK, bad, bad, 0},
	"open_tree":      {unix.SYS_OPEN_TREE, bad, bad, 0},
	"move_mount":     {unix.SYS_MOVE_MOUNT, bad, bad, bad, bad, 0},
	"mount_setattr":  {unix.SYS_MOUNT_SETATTR, bad, bad, 0, bad, 32},
	"pivot_root":     {unix.SYS_PIVOT_ROOT, bad, bad},
	"setns":          {unix.SYS_SETNS, bad, 0},
	"unshare":        {unix.SYS_UNSHARE, 1 << 62},
	"clone3":         {unix.SYS_CLONE3, bad, 88},
	"io_uring_setup": {unix.SYS_IO_URING_SETUP, 1, bad},
	"io_uring_enter": {unix.SYS_IO_URING_ENTER, bad, 0, 0, 0, 0},
	"bpf":            {unix.SYS_BPF, 0, bad, 8},
	"perf":           {unix.SYS_PERF_EVENT_OPEN, bad, 0, 0, bad, 0},
	"keyctl":         {unix.SYS_KEYCTL, unix.KEYCTL_DESCRIBE, 1 << 30, 0, 0},
	"add_key":        {unix.SYS_ADD_KEY, bad, bad, 0, 0, 0},
	"request_key":    {unix.SYS_REQUEST_KEY, bad, bad, 0, 0},
	"init_module":    {unix.SYS_INIT_MODULE, bad, 1, bad},
	"finit_module":   {unix.SYS_FINIT_MODULE, bad, bad, 0},
	"delete_module":  {unix.SYS_DELETE_MODULE, bad, 0},
	"kexec_load":     {unix.SYS_KEXEC_LOAD, 0, 1 << 20, bad, 0},
	"swapon":         {unix.SYS_SWAPON, bad, 0},
	"syslog":         {unix.SYS_SYSLOG, 3, bad, 0xffffffff},
	"acct":           {unix.SYS_ACCT, bad},
	"quotactl":       {unix.SYS_QUOTACTL, 0xffff, bad, 0, 0},
	"fanotify_init":  {unix.SYS_FANOTIFY_INIT, 0xffffffff, 0},
	"open_by_handle": {unix.SYS_OPEN_BY_HANDLE_AT, bad, bad, 0},
	"settimeofday":   {unix.SYS_SETTIMEOFDAY, bad, 0},
	"sethostname":    {unix.SYS_SETHOSTNAME, bad, 1},
	"reboot":         {unix.SYS_REBOOT, 0, 0, 0, 0},
	"openat2":        {unix.SYS_OPENAT2, bad, bad, bad, 24},
}

// call makes one of them.
func call(a []string) error {
	c, ok := calls[a[0]]
	if !ok {
		return fact("no call " + a[0])
	}
	runtime.LockOSThread()
	_, err := rawCall(c[0], c[1:]...)
	return err
}

func rawCall(nr uintptr, args ...uintptr) (int, error) {
	var a [6]uintptr
	copy(a[:], args)
	r, _, no := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return int(r), failure(no)
}

// cloneInto starts a process in a new namespace.
func cloneInto(a []string) error {
	flag := map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	}[a[0]]
	c := exec.Command("/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flag}
	return c.Run()
}

func clearReadOnly(a []string) error {
	return unix.MountSetattr(unix.AT_FDCWD, a[0], 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
}

// inMount makes a path a read-only mount first, as the sandbox has it, and then an
// attempt on it: the control for those that undo mounts.
func inMount(a []string) error {
	if err := unix.Mount(a[0], a[0], "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	return attempts[a[1]](append([]string{a[0]}, a[2:]...))
}

// bindThrough mounts a directory at a path, as a careless launcher would, and finds
// the mount at another one.
func bindThrough(a []string) error {
	if err := unix.Mount(a[0], a[1], "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return mountinfo(a[2:])
}

func enterNamespace(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	runtime.LockOSThread()
	return unix.Setns(fd, 0)
}

// newSocket opens a socket: family, type and protocol as numbers, and "high" to set
// a bit above those that the kernel looks at.
func newSocket(a []string) error {
	family := uintptr(number(a[0]))
	if len(a) > 3 && a[3] == "high" {
		family |= 1 << 32
	}
	return opened(rawCall(unix.SYS_SOCKET, family, uintptr(number(a[1])), uintptr(number(a[2]))))
}

// personality asks for an address space without surprises.
func personality([]string) error {
	const addrNoRandomize = 0x0040000
	_, err := rawCall(unix.SYS_PERSONALITY, addrNoRandomize)
	return err
}

func addKey(a []string) error {
	_, err := unix.AddKey("user", a[0], []byte(mark), unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}

func writeText(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(strings.ReplaceAll(text, "+", " ")))
	return err
}

// decimal is for notes.
func decimal(n int) string { return strconv.Itoa(n) }
