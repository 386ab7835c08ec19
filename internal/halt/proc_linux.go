package halt

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Proc is where processes are seen, and how signals reach them: this process's own /proc, or
// that of a process namespace, in which they have other numbers.
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

// Of are those of a process namespace below this process's own, by a directory of its /proc. Who
// sends a signal opens an entry there, and sends it to that: so it reaches whoever has this number
// in the namespace, and nobody outside, whatever number it has there. To a single thread the kernel
// sends one so since Linux 6.9; within does it otherwise, and is asked to only then. (A thread that
// is 0 stands for the whole process.)
func Of(dir int, within func(pid, tid int, sig unix.Signal) error) *Proc {
	return &Proc{dir, "", func(pid, tid int, sig unix.Signal) error {
		number, flags := pid, 0
		if tid != 0 { // it has an entry, though that is not listed
			number, flags = tid, unix.PIDFD_SIGNAL_THREAD
		}
		fd, err := unix.Openat(dir, strconv.Itoa(number), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		err = unix.PidfdSendSignal(fd, sig, nil, flags)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			err = within(pid, tid, sig)
		}
		return err
	}}
}

// Innermost is the number of a process in the process namespace that it is in, or 0.
func Innermost(pid int) int {
	all := strings.Fields(field(Here.status(strconv.Itoa(pid)+"/"), "NSpid"))
	if len(all) == 0 {
		return 0
	}
	return int(number(all[len(all)-1]))
}

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
