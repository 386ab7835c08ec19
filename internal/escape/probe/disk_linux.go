package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// smallDisk runs a command in a directory on a disk of its own, and says what is left of it when
// the command has ended. If coffer says that the sandbox is frozen, it says so and what is left then,
// makes room, and ends it when it goes on.
func smallDisk(a []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	options := fmt.Sprintf("mode=755,%s,uid=%d,gid=%d", a[1], os.Getuid(), os.Getgid())
	if err := unix.Mount("small", a[0], "tmpfs", 0, options); err != nil {
		return err
	}
	if err := os.Chdir(a[0]); err != nil {
		return err
	}
	c := exec.Command("/proc/self/exe", append([]string{"become"}, a[2:]...)...)
	c.Stdin, c.Stdout = os.Stdin, os.Stdout
	words, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	for s := bufio.NewScanner(words); s.Scan(); {
		fmt.Fprintln(os.Stderr, s.Text())
		switch {
		case strings.Contains(s.Text(), "make room, or end the sandbox with"):
			fmt.Println("TOLD")
			_ = c.Process.Signal(unix.SIGINT)
		case strings.Contains(s.Text(), "there is room again"):
			fmt.Println("WENT-ON")
			_ = c.Process.Signal(unix.SIGINT)
		case strings.Contains(s.Text(), "is frozen, because"):
			sayLeft("FROZEN")
			makeRoom()
		}
	}
	err = c.Wait()
	sayLeft("LEFT")
	return err
}

// sayLeft says how many bytes and files are left.
func sayLeft(word string) {
	var st unix.Statfs_t
	if err := unix.Statfs(".", &st); err == nil {
		fmt.Println(word, st.Bavail*uint64(st.Bsize), st.Ffree)
	}
}

// makeRoom empties the directory. A file that is open keeps its room unless it is truncated.
func makeRoom() {
	entries, _ := os.ReadDir(".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "fill") {
			_ = os.Truncate(e.Name(), 0)
			_ = os.Remove(e.Name())
		}
	}
}
