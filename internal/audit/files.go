package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockName = "lock"
	headName = "head.json"

	filePrefix = "events-"
	fileSuffix = ".jsonl"
)

func fileName(number int) string { return fmt.Sprintf(filePrefix+"%06d"+fileSuffix, number) }

// fileNumber is the number of the file with this name, 0 if it is none of ours.
func fileNumber(name string) int {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, filePrefix), fileSuffix)
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || fileName(n) != name {
		return 0
	}
	return n
}

// listFiles returns the numbers of the files of a log, the oldest first. A log that was
// never begun has none.
func listFiles(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []int
	for _, e := range entries {
		if n := fileNumber(e.Name()); n > 0 {
			all = append(all, n)
		}
	}
	slices.Sort(all) // by number: a million files on, names sort differently
	return all, nil
}

// open opens a file of the log. Nobody but us should write to the directory; still, a
// link is not followed, and a pipe in a file's place does not stop us.
func open(dir, name string, flags int) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
}

// ErrLocked is for a log that another process writes.
var ErrLocked = errors.New("another process writes this log")

// lockTries is how often it is looked whether another writer has ended: for three seconds, and for
// longer on a machine that stands still meanwhile.
const lockTries = 300

// lockDir makes the directory of a log and takes its lock, which ends with the file.
func lockDir(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		info, err := os.Lstat(dir)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
		}
		if info.Mode().Perm() != 0o700 {
			if err := os.Chmod(dir, 0o700); err != nil {
				return nil, err
			}
		}
	}
	f, err := open(dir, lockName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	// Who was killed may have a child that has not let go of its files yet.
	for try := 0; errors.Is(err, unix.EWOULDBLOCK) && try < lockTries; try++ {
		time.Sleep(10 * time.Millisecond)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return f, nil
}

type lines struct {
	r      *bufio.Reader
	number int   // of the line that was read last
	end    int64 // where it ends in the file
	rest   int64 // at the end of the file: bytes of a line that was not ended
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, maxLine+1)} }

// next returns a line without its end, valid until the next call, and at the end of the
// file io.EOF. Of a line that is too long, it returns the beginning.
func (l *lines) next() ([]byte, error) {
	b, err := l.r.ReadSlice('\n')
	l.rest = int64(len(b))
	if errors.Is(err, bufio.ErrBufferFull) {
		b = slices.Clone(b)
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		var more []byte
		more, err = l.r.ReadSlice('\n')
		l.rest += int64(len(more))
	}
	if err != nil {
		return nil, err
	}
	l.number++
	l.end += l.rest
	return bytes.TrimSuffix(b, []byte{'\n'}), nil
}
