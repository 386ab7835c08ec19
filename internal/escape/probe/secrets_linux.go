package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// secrets are attempts to learn what is none of a sandbox's business.
var secrets = map[string]func([]string) error{
	"read":      read,
	"shadow":    shadow,
	"stat":      func(a []string) error { return unix.Lstat(a[0], new(unix.Stat_t)) },
	"list":      list,
	"env":       env,
	"scan-proc": scanProc,
	"mountinfo": mountinfo,
	"readlink":  func(a []string) error { _, err := os.Readlink(a[0]); return err },
	"fds":       leakedDescriptors,
	"key":       searchKey,
}

// read says how much there is, never what.
func read(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), a[0])
	defer f.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(f, 1<<20))
	if err == nil && n == 0 {
		return fact("EMPTY")
	}
	return err
}

// shadow looks for what the host's /etc/shadow tells of an account: a password, or since when. The
// sandbox's own has neither.
func shadow([]string) error {
	text, err := os.ReadFile("/etc/shadow")
	if err == nil && len(text) == 0 {
		return fact("EMPTY")
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 2 && (f[1] != "*" || f[2] != "") {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return fact("NOTHING-TOLD")
}

func list(a []string) error {
	entries, err := os.ReadDir(a[0])
	if err == nil && len(entries) == 0 {
		return fact("EMPTY")
	}
	return err
}

func env(a []string) error {
	own, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return err
	}
	_, set := os.LookupEnv(a[0])
	if !set && !bytes.Contains(own, []byte(a[0]+"=")) {
		return fact("ABSENT")
	}
	return nil
}

// scanProc looks for a word in the environment and command line of every process
// there is, except our own command line and our callers', which carry the word.
func scanProc(a []string) error {
	word := []byte(strings.ReplaceAll(a[0], "+", ""))
	found := fact("ABSENT")
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err == nil && bytes.Contains(b, word) {
			return nil
		}
	}
	return found
}

// mountinfo looks for a mount point.
func mountinfo(a []string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 4 && f[4] == a[0] {
			return nil
		}
	}
	return fact("ABSENT")
}

// leakedDescriptors finds open descriptors that we did not open.
func leakedDescriptors([]string) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || e.Name() == "0" || e.Name() == "1" || e.Name() == "2" {
			continue
		}
		if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "/sys/") {
			note = e.Name() + " is " + to
			return nil
		}
	}
	return fact("NONE")
}

// searchKey looks for a key in the session keyring that we were started with.
func searchKey(a []string) error {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", a[0], 0)
	if err != nil {
		return err
	}
	buf := make([]byte, 64)
	_, err = unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
	return err
}
