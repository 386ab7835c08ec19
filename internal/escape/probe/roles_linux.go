package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// roles are what the probe can be besides an attempt: victims, and places to run
// something in.
var roles map[string]func([]string) error

func init() {
	roles = map[string]func([]string) error{
		"victim":            victim,
		"whoami":            func([]string) error { _, err := fmt.Println(os.Geteuid()); return err },
		"flood":             flood,
		"ns":                inNamespaces,
		"no-userns":         func(a []string) error { return again("no-userns-inside", unix.CLONE_NEWUSER, a) },
		"no-userns-inside":  withoutNamespaces,
		"few-inodes":        func(a []string) error { return again("few-inodes-inside", unix.CLONE_NEWNS, a) },
		"few-inodes-inside": fewInodes,
		"small-disk":        func(a []string) error { return again("small-disk-inside", unix.CLONE_NEWNS, a) },
		"small-disk-inside": smallDisk,
		"userns":            func(a []string) error { return again("become", unix.CLONE_NEWUSER, a) },
		"become":            become,
		"with-key":          withKey,
	}
}

// tell makes an ioctl with the bytes of typed.
func tell(fd int, request uintptr) error {
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&typed)))
	return failure(no)
}

// canary is what a victim has in its memory.
var canary = [16]byte{'c', 'a', 'n', 'a', 'r', 'y'}

// victim waits to be attacked. It says where its canary is, and for every line on its
// input how the canary looks and who traces it.
func victim([]string) error {
	unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // where Yama minds
	fmt.Printf("%x\n", uintptr(unsafe.Pointer(&canary)))
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		prio, _ := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid()) // the first thread's
		fmt.Printf("%s priority %d\n", hex.EncodeToString(canary[:]), prio)
	}
	return nil
}

// flood prints megabytes.
func flood(a []string) error {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = 'x'
	}
	for range number(a[0]) {
		if _, err := os.Stdout.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// inNamespaces runs us again as root of namespaces of our own: the control for
// attempts that only root could succeed with.
func inNamespaces(a []string) error {
	c := exec.Command("/proc/self/exe", a...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := c.Start(); err != nil {
		return json.NewEncoder(os.Stdout).Encode(result{Wall: wall(err), Note: "no namespaces"})
	}
	return c.Wait()
}

// again runs us in another role in a new namespace, with the rights to set it up.
// Who is not root needs a user namespace for that, in which everybody is himself.
func again(role string, flags uintptr, a []string) error {
	c := exec.Command("/proc/self/exe", append([]string{role}, a...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 || flags == unix.CLONE_NEWUSER {
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		for n := range uintptr(unix.CAP_LAST_CAP + 1) {
			c.SysProcAttr.AmbientCaps = append(c.SysProcAttr.AmbientCaps, n)
		}
	}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	return err
}

// become gives the rights up and turns into a command.
func become(a []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec(a[0], a, os.Environ())
}

// withoutNamespaces becomes a command that can make no user namespace, nor, though it may
// be root of this one, any other.
func withoutNamespaces(a []string) error {
	runtime.LockOSThread()
	if err := writeText("/proc/sys/user/max_user_namespaces", "0"); err != nil {
		return err
	}
	for n := range uintptr(unix.CAP_LAST_CAP + 1) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0); err != nil && err != unix.EINVAL {
			return err
		}
	}
	var sets [2]unix.CapUserData
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return err
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	if err := unix.Capset(&head, &sets[0]); err != nil {
		return err
	}
	return become(a)
}

// fewInodes becomes a command in a directory on which nothing more can be made, until
// something in it is removed.
func fewInodes(a []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	options := fmt.Sprintf("mode=755,nr_inodes=16,uid=%d,gid=%d", os.Getuid(), os.Getgid())
	if err := unix.Mount("few", a[0], "tmpfs", 0, options); err != nil {
		return err
	}
	if err := os.Chdir(a[0]); err != nil {
		return err
	}
	for n := range 20 {
		if err := os.Mkdir(fmt.Sprint("filler", n), 0o755); err != nil {
			break
		}
	}
	c := exec.Command("/proc/self/exe", append([]string{"become"}, a[1:]...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if _, lerr := os.Lstat(".git/hooks"); lerr == nil {
		fmt.Println("PLANTED")
	}
	return err
}

// withKey becomes a command with a key in a session keyring of its own.
func withKey(a []string) error {
	runtime.LockOSThread()
	if _, err := rawCall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0); err != nil {
		return err
	}
	if _, err := unix.AddKey("user", a[0], []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		return err
	}
	return syscall.Exec(a[1], a[1:], os.Environ())
}
