package main

import (
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// resources are attempts to take more than there is for one sandbox. All are bounded,
// because they are made outside as well.
var resources = map[string]func([]string) error{
	"forks":      forks,
	"memory":     memory,
	"open-files": openFiles,
	"fill":       fill,
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
