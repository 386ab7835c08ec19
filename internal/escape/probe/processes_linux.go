package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processes are attempts on other processes.
var processes = map[string]func([]string) error{
	"kill":       func(a []string) error { return unix.Kill(number(a[0]), unix.SIGKILL) },
	"renice":     func(a []string) error { return unix.Setpriority(unix.PRIO_PROCESS, number(a[0]), 7) },
	"ptrace":     func(a []string) error { return attach(number(a[0])) },
	"ptrace-all": attachThreads,
	"mem":        writeMemory,
	"mem-all":    openMemories,
	"vm-write":   func(a []string) error { return remote(unix.SYS_PROCESS_VM_WRITEV, a) },
	"vm-read":    func(a []string) error { return remote(unix.SYS_PROCESS_VM_READV, a) },
	"pidfd":      func(a []string) error { return opened(unix.PidfdOpen(number(a[0]), 0)) },
	"pidfd-get":  pidfdGet,
	"fd-of":      descriptorOf,
	"shm":        sharedMemory,
	"chroot":     chrootOut,
	"daemon":     daemon,
	"signals":    everySignal,
	"crash":      crash,
	"session":    foreignSession,
	"caps":       capabilities,
	"prlimit":    raiseLimit,
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// attach takes hold of a thread and lets go again.
func attach(tid int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(tid); err != nil {
		return err
	}
	note = "seized " + strconv.Itoa(tid)
	// A detach needs a stopped thread; our end will do.
	return nil
}

func attachThreads(a []string) error {
	tids, err := os.ReadDir("/proc/" + a[0] + "/task")
	if err != nil {
		return err
	}
	for _, t := range tids {
		if err = attach(number(t.Name())); err == nil {
			return nil
		}
	}
	return err
}

// writeMemory overwrites what is at an address of a process, through /proc.
func writeMemory(a []string) error {
	at, err := strconv.ParseInt(a[1], 16, 64)
	if err != nil {
		return err
	}
	fd, err := unix.Open("/proc/"+a[0]+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Pwrite(fd, []byte(mark), at)
	return err
}

// openMemories opens the memory of every thread of a process.
func openMemories(a []string) error {
	tids, err := os.ReadDir("/proc/" + a[0] + "/task")
	if err != nil {
		return err
	}
	for _, t := range tids {
		path := "/proc/" + a[0] + "/task/" + t.Name() + "/mem"
		if err = opened(unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)); err == nil {
			note = path
			return nil
		}
	}
	return err
}

// remote is process_vm_readv or process_vm_writev with one short vector. (An empty
// one succeeds whatever the process.)
func remote(call uintptr, a []string) error {
	at, err := strconv.ParseUint(a[1], 16, 64)
	if err != nil {
		return err
	}
	buf := []byte(mark)
	local := unix.Iovec{Base: &buf[0], Len: uint64(len(buf))}
	far := unix.RemoteIovec{Base: uintptr(at), Len: len(buf)}
	_, _, no := unix.Syscall6(call, uintptr(number(a[0])), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&far)), 1, 0)
	return failure(no)
}

// pidfdGet takes a descriptor out of another process.
func pidfdGet(a []string) error {
	p, err := unix.PidfdOpen(number(a[0]), 0)
	if err != nil {
		return err
	}
	defer unix.Close(p)
	return opened(unix.PidfdGetfd(p, 1, 0))
}

// descriptorOf opens a descriptor of another process through /proc.
func descriptorOf(a []string) error {
	return opened(unix.Open("/proc/"+a[0]+"/fd/"+a[1], unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0))
}

// sharedMemory attaches a System V segment of the host by its key, and writes.
func sharedMemory(a []string) error {
	id, err := unix.SysvShmGet(number(a[0]), 0, 0)
	if err != nil {
		return err
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return err
	}
	copy(b, mark)
	return unix.SysvShmDetach(b)
}

// chrootOut is the old way out of a chroot, then a write to a file of the host.
func chrootOut(a []string) error {
	dir, err := os.MkdirTemp("", "chroot")
	if err != nil {
		return err
	}
	defer os.Remove(dir) // where there is a way out
	if err := unix.Chroot(dir); err != nil {
		return err
	}
	for range 64 {
		if err := unix.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return write(a[0], unix.O_WRONLY)
}

// daemon leaves a process behind that nobody waits for.
func daemon(a []string) error {
	c := exec.Command("setsid", "-f", "sh", "-c", "setsid -f sleep "+a[0])
	return c.Run()
}

// everySignal sends all signals to a process.
func everySignal(a []string) error {
	sent := 0
	for s := range unix.Signal(65) {
		if s != 0 && unix.Kill(number(a[0]), s) == nil {
			sent++
		}
	}
	if sent == 0 {
		return unix.EPERM
	}
	note = fmt.Sprint(sent, " signals sent")
	return nil
}

// crash sends a process the signal of a memory error, with a code that programs take
// for the kernel's.
func crash(a []string) error {
	var info [128]byte
	*(*int32)(unsafe.Pointer(&info[0])) = int32(unix.SIGSEGV)
	*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
	_, _, no := unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(number(a[0])), uintptr(unix.SIGSEGV), uintptr(unsafe.Pointer(&info[0])))
	return failure(no)
}

// foreignSession finds out whether we are in the session of somebody who is not
// there, which is how a launcher's session looks from inside.
func foreignSession([]string) error {
	sid, err := unix.Getsid(0)
	if err != nil {
		return err
	}
	if sid == 0 || unix.Kill(sid, 0) == unix.ESRCH {
		return nil
	}
	return fact("OWN-SESSION")
}

// capabilities finds any in any set.
func capabilities([]string) error {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		name, value, _ := strings.Cut(line, ":\t")
		if strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "" {
			note = line
			return nil
		}
	}
	return fact("NONE")
}

// raiseLimit raises the hard limit on open files by one.
func raiseLimit([]string) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		return err
	}
	now.Max++
	return unix.Prlimit(0, unix.RLIMIT_NOFILE, &now, nil)
}
