package halt

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Proc is where processes are seen, and how signals reach them.
type Proc struct {
	at   int    // a directory,
	path string // and what leads from it to the numbers
	send func(pid, tid int, sig unix.Signal) error
}

// Here are the processes that this one sees.
var Here = &Proc{unix.AT_FDCWD, "/proc/", func(pid, tid int, sig unix.Signal) error {
	if tid == 0 {
		return unix.Kill(pid, sig)
	}
	return unix.Tgkill(pid, tid, sig)
}}

// Processes lists all.
func (p *Proc) Processes() ([]int, error) { return p.numbers(".") }

func (p *Proc) open(name string, flags int) (int, error) {
	return unix.Openat(p.at, p.path+name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
}

// read reads the beginning of a file. Of a small one the kernel hands out all at once.
func (p *Proc) read(name string, buf []byte) []byte {
	fd, err := p.open(name, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// status is what a status file says. It may be long: it has all groups of a process in it.
func (p *Proc) status(dir string) string {
	for size := 4096; ; size *= 4 {
		if text := p.read(dir+"status", make([]byte, size)); len(text) < size {
			return string(text)
		}
	}
}

// field is one of a status file.
func field(status, name string) string {
	_, rest, _ := strings.Cut(status, "\n"+name+":\t")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// stat are the fields of a stat file from the state on. Before it is a name, which may contain
// anything.
func (p *Proc) stat(dir string) []string {
	text := p.read(dir+"stat", make([]byte, 2048))
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// numbers lists entries of a directory that are numbers.
func (p *Proc) numbers(path string) (all []int, err error) {
	names, err := p.names(path, -1)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all, err
}

// names lists a directory, or its first entries.
func (p *Proc) names(path string, n int) ([]string, error) {
	fd, err := p.open(path, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	return dir.Readdirnames(n)
}

// children lists those that threads of a process have forked. (A kernel may not tell.)
func (p *Proc) children(pid int) (all []int) {
	tasks := strconv.Itoa(pid) + "/task"
	threads, _ := p.names(tasks, maxMany)
	for _, thread := range threads {
		for f := range bytes.FieldsSeq(p.beginning(tasks + "/" + thread + "/children")) {
			if child, err := strconv.Atoi(string(f)); err == nil && len(all) < maxMany {
				all = append(all, child)
			}
		}
	}
	return all
}

// beginning is that of a list of numbers, which may be of any length: as many as are looked at.
func (p *Proc) beginning(list string) []byte {
	text := p.read(list, make([]byte, maxMany*len("4194304 ")))
	return text[:bytes.LastIndexByte(text, ' ')+1] // one that is cut off is another's
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func hex(s string) uint64 {
	n, _ := strconv.ParseUint(s, 16, 64)
	return n
}
