package main

import (
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// resources are attempts to take more than there is for one sandbox. All are bounded,
// because they are made outside as well.
var resources = map[string]func([]string) error{
	"forks":      forks,
	"memory":     memory,
	"open-files": openFiles,
	"fill":       fill,
	"fill-disk":  fillDisk,
	"fill-files": fillFiles,
	"allocate":   allocate,
	"inotify":    inotify,
	"buffers":    buffers,
}

// forks starts a number of processes that wait, and ends them again.
func forks(a []string) (err error) {
	var all []*exec.Cmd
	for range number(a[0]) {
		c := exec.Command("/bin/sleep", "60")
		if err = c.Start(); err != nil {
			break
		}
		all = append(all, c)
	}
	note = decimal(len(all)) + " started"
	for _, c := range all {
		c.Process.Kill()
	}
	for _, c := range all {
		c.Wait()
	}
	return err
}

// memory uses a number of megabytes.
func memory(a []string) error {
	b, err := unix.Mmap(-1, 0, number(a[0])<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return unix.Munmap(b)
}

func openFiles(a []string) (err error) {
	var all []int
	for range number(a[0]) {
		var fd int
		if fd, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			break
		}
		all = append(all, fd)
	}
	note = decimal(len(all)) + " opened"
	for _, fd := range all {
		unix.Close(fd)
	}
	return err
}

// inotify takes a number of inotify instances.
func inotify(a []string) (err error) {
	var all []int
	for range number(a[0]) {
		var fd int
		if fd, err = unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			break
		}
		all = append(all, fd)
	}
	note = decimal(len(all)) + " taken"
	for _, fd := range all {
		unix.Close(fd)
	}
	return err
}

// buffers fills the buffers of TCP connections to itself with a number of megabytes. Where they are
// full before, it met ENOBUFS.
func buffers(a []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	block := make([]byte, 64<<10)
	sent := 0
	for range 300 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		far, err := l.Accept()
		if err != nil {
			return err
		}
		defer far.Close()
		for err == nil && sent < number(a[0])<<20 {
			c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			var n int
			n, err = c.Write(block)
			sent += n
		}
	}
	note = decimal(sent>>20) + " MB sent"
	if sent < number(a[0])<<20 {
		return unix.ENOBUFS
	}
	return nil
}

// fill writes a number of kilobytes to a new file and removes it.
func fill(a []string) error {
	f, err := os.Create(a[0])
	if err != nil {
		return err
	}
	defer os.Remove(a[0])
	defer f.Close()
	block := make([]byte, 1<<10)
	for range number(a[1]) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// fillDisk writes to a file until it cannot, some 200 MiB in a second. It stays.
func fillDisk(a []string) error {
	f, err := os.Create(a[0])
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(block)
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

// fillFiles makes files until it cannot, some 30,000 in a second. They stay.
func fillFiles(a []string) (err error) {
	for n := 0; err == nil; n++ {
		var fd int
		if fd, err = unix.Open(a[0]+decimal(n), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644); err == nil {
			unix.Close(fd)
		}
		if n%32 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return err
}

// allocate takes all that is free, by one system call that writes nothing. The file stays.
func allocate(a []string) error {
	fd, err := unix.Open(a[0], unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	return unix.Fallocate(fd, 0, 0, int64(st.Bavail)*st.Bsize)
}
