package knock

import (
	"strconv"
	"syscall"
	"unsafe"
)

// arguments are those that this process was started with, or none if they are too many.
// Package os has them, too, but is not set up yet.
func arguments() (all []string) {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	for text, got := make([]byte, 4096), 0; len(text) <= maxEnv; text = append(text, make([]byte, len(text))...) {
		n, err := syscall.Read(fd, text[got:])
		if err != nil || n < 0 {
			return nil
		}
		if got += n; got < len(text) {
			return split(text[:got])
		}
	}
	return nil
}

// split takes a text apart whose pieces end with a zero.
func split(text []byte) (all []string) {
	start := 0
	for i, c := range text {
		if c == 0 {
			all = append(all, string(text[start:i]))
			start = i + 1
		}
	}
	return all
}

// entries are the names in a directory, or none if it cannot be read.
func entries(dir string) (names []string) {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	for buf := make([]byte, 4096); ; {
		n, err := syscall.ReadDirent(fd, buf)
		if err != nil {
			return nil
		}
		if n <= 0 {
			return names
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
}

// connect connects to a socket in a directory, whose other end must have room for us now.
func connect(dir, name string) int {
	path := dir + "/" + name
	if len(path) > maxPath {
		// It does not fit into an address; this does.
		at, err := syscall.Open(dir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return -1
		}
		defer syscall.Close(at)
		path = "/proc/self/fd/" + strconv.Itoa(at) + "/" + name
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1
	}
	if syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}) != nil || syscall.SetNonblock(fd, false) != nil {
		syscall.Close(fd)
		return -1
	}
	return fd
}

// oPath is a flag that package syscall does not name.
const oPath = 0x200000

func isTerminal(fd int) bool {
	var state syscall.Termios
	_, _, err := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TCGETS, uintptr(unsafe.Pointer(&state)))
	return err == 0
}

// isNull says whether a descriptor is the null device.
func isNull(fd int) bool {
	var have syscall.Stat_t
	const null = 1<<8 | 3
	return syscall.Fstat(fd, &have) == nil && have.Mode&syscall.S_IFMT == syscall.S_IFCHR && have.Rdev == null
}

// same says whether two descriptors lead to the same place.
func same(a, b int) bool {
	var first, second syscall.Stat_t
	return syscall.Fstat(a, &first) == nil && syscall.Fstat(b, &second) == nil && first.Dev == second.Dev && first.Ino == second.Ino
}

func exists(path string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) != syscall.ENOENT
}

// wait waits until a descriptor can be written to.
func wait(fd int) {
	p := struct {
		fd              int32
		events, happens int16
	}{int32(fd), 4, 0} // POLLOUT
	_, _, _ = syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, 0, 0, 0, 0)
}
