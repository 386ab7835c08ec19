package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const mark = "escaped\n"

// files are attempts to change what is outside.
var files = map[string]func([]string) error{
	"write":    func(a []string) error { return write(a[0], unix.O_WRONLY) },
	"create":   func(a []string) error { return write(a[0], unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) },
	"openw":    openForWriting,
	"mkdir":    func(a []string) error { return unix.Mkdir(a[0], 0o755) },
	"link":     func(a []string) error { return unix.Link(a[0], a[1]) },
	"rename":   func(a []string) error { return unix.Rename(a[0], a[1]) },
	"unlink":   func(a []string) error { return unix.Unlink(a[0]) },
	"rmdir":    func(a []string) error { return unix.Rmdir(a[0]) },
	"truncate": func(a []string) error { return unix.Truncate(a[0], 0) },
	"utime": func(a []string) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, a[0], []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
	},
	"setxattr":  func(a []string) error { return unix.Setxattr(a[0], "user.coffer", []byte(mark), 0) },
	"chown":     chown,
	"mknod":     mknod,
	"via-link":  viaLink,
	"reopen":    reopen,
	"reopen-fd": func(a []string) error { return write("/proc/self/fd/"+a[0], unix.O_WRONLY) },
	"write-fd":  writeFD,
	"dir-fd":    dirFD,
	"handle":    byHandle,
	"replace":   replaceDir,
	"init-hook": initHook,
	"plant":     plant,
	"lease":     lease,
}

func write(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o755)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(mark))
	return err
}

// lease takes a lease on a new file.
func lease(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	return err
}

// openForWriting writes nothing: for files of the kernel, where a control must not.
func openForWriting(a []string) error {
	fd, err := unix.Open(a[0], unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func chown(a []string) error {
	id, err := strconv.Atoi(a[1])
	if err != nil {
		return err
	}
	return unix.Lchown(a[0], id, id)
}

func mknod(a []string) error {
	mode := uint32(unix.S_IFCHR)
	if a[1] == "b" {
		mode = unix.S_IFBLK
	}
	return unix.Mknod(a[0], mode|0o666, int(unix.Mkdev(1, 3)))
}

func viaLink(a []string) error {
	if err := unix.Symlink(a[0], a[1]); err != nil {
		return fmt.Errorf("plant the link: %v", err)
	}
	return write(a[1], unix.O_WRONLY)
}

// reopen opens for reading, and that descriptor again for writing.
func reopen(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return write("/proc/self/fd/"+strconv.Itoa(fd), unix.O_WRONLY)
}

func writeFD(a []string) error {
	fd, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(mark))
	return err
}

// dirFD writes to a file relative to a directory that somebody left open.
func dirFD(a []string) error {
	fd, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	f, err := unix.Openat(fd, a[1], unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(f)
	_, err = unix.Write(f, []byte(mark))
	return err
}

// byHandle opens a file by its number, past all directories and mounts.
func byHandle(a []string) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0)
	if err != nil {
		return err
	}
	dir, err := unix.Open(filepath.Dir(a[0]), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.OpenByHandleAt(dir, h, unix.O_WRONLY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(mark))
	return err
}

// replaceDir moves a protected directory away and puts a file in its place that
// names a git directory of our own.
func replaceDir(a []string) error {
	if err := unix.Rename(a[0], a[0]+".aside"); err != nil {
		return err
	}
	return os.WriteFile(a[0], []byte("gitdir: evil\n"), 0o644)
}

// initHook makes a repository with a hook, as far as the host would run it.
func initHook(a []string) error {
	git := filepath.Join(a[0], ".git")
	for _, d := range []string{"", "hooks", "objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(git, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(git, "hooks", "post-checkout"), []byte("#!/bin/sh\n"), 0o755)
}

// plant makes symbolic links, given as path=target, replacing what is there.
func plant(a []string) error {
	for _, l := range a {
		path, target, ok := strings.Cut(l, "=")
		if !ok {
			return fmt.Errorf("%q is no link", l)
		}
		if err := os.RemoveAll(path); err != nil {
			// A mount point below: move its parent away instead.
			if err := os.Rename(path, path+".aside"); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	return nil
}
