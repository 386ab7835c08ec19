package ui

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/terminal"
	"golang.org/x/sys/unix"
)

// ErrCancelled says that the user chose nothing.
var ErrCancelled = errors.New("nothing was chosen")

// ErrInterrupted says that the user pressed Ctrl-C, which made no signal: the terminal was in
// raw mode.
var ErrInterrupted = errors.New("interrupted")

// A Signal ended the choice. The terminal is as it was.
type Signal syscall.Signal

func (s Signal) Error() string { return syscall.Signal(s).String() }

// most is how many lines are shown at a time.
const most = 12

// Choose shows a list on a terminal and returns the index of the item that the user chooses, by
// the arrow keys or by typing letters of it. Otherwise it returns one of the errors above, or the
// terminal's.
//
// It draws below the cursor with the control sequences of a VT100, asks the terminal nothing, and
// leaves nothing behind. charm's huh would be 22 modules for this one list.
func Choose(tty *os.File, title string, items []Item) (int, error) {
	fd := int(tty.Fd())
	state, err := terminal.Raw(fd)
	if err != nil {
		return 0, err
	}
	defer state.Restore()
	signals, forget, err := notice(unix.SIGWINCH, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	if err != nil {
		return 0, err
	}
	defer forget()
	l := newList(title, escaped(items), most)
	l.keys = "arrows and Enter; letters search; Esc leaves"
	s := &screen{tty: tty}
	defer s.clear()
	var in []byte
	for {
		width, height := size(fd)
		s.wrap(width)
		l.tall(min(most, height-2))
		s.draw(l.lines(width))
		if in, err = read(fd, signals, in, -1); err != nil {
			return 0, err
		}
		for len(in) > 0 {
			var key string
			if key, in = next(in, false); key == "" {
				// Escape, or the beginning of a sequence: its rest comes at once or not at all.
				before := len(in)
				if in, err = read(fd, -1, in, 50); err != nil {
					return 0, err
				}
				key, in = next(in, len(in) == before)
			}
			switch l.key(key) {
			case chosen:
				return l.hits[l.at], nil
			case cancelled:
				return 0, ErrCancelled
			case interrupted:
				return 0, ErrInterrupted
			}
		}
	}
}

func escaped(items []Item) (clean []Item) {
	for _, item := range items {
		var columns Item
		for _, column := range item {
			columns = append(columns, terminal.Escape(column))
		}
		clean = append(clean, columns)
	}
	return clean
}

// size is that of a terminal, or the usual one if it does not say.
func size(fd int) (width, height int) {
	if width, height, _ = terminal.Size(fd); width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// notice returns a descriptor from which signals that arrive can be read.
func notice(which ...os.Signal) (fd int, forget func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return -1, nil, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, which...)
	go func() {
		defer w.Close()
		for s := range signals {
			n, _ := s.(syscall.Signal)
			_, _ = w.Write([]byte{byte(n)})
		}
	}()
	return int(r.Fd()), func() { signal.Stop(signals); close(signals); r.Close() }, nil
}

// read adds what comes from the terminal. It waits for so many milliseconds, without an end if
// that is negative, or until there is a signal. It polls the descriptors itself, because a
// goroutine that reads could not be stopped, and would take keys that are for a program.
func read(fd, news int, in []byte, wait int) ([]byte, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(news), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, wait)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return in, err
		}
		buf := make([]byte, 256)
		if fds[0].Revents == 0 {
			_, err = unix.Read(news, buf[:1])
			if n := syscall.Signal(buf[0]); err == nil && n != unix.SIGWINCH {
				err = Signal(n)
			}
			return in, err
		}
		n, err = unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return in, fmt.Errorf("read the terminal: %w", err)
		case n == 0:
			return in, ErrCancelled
		}
		return append(in, buf[:n]...), nil
	}
}

// screen is the part of the terminal below the cursor.
type screen struct {
	tty   *os.File
	drawn []string
	rows  int // that they are on
}

// wrap counts the rows that the lines are on now, if the width has changed.
func (s *screen) wrap(width int) {
	s.rows = 0
	for _, line := range s.drawn {
		s.rows += max(1, (utf8.RuneCountInString(line)+width-1)/width)
	}
}

func (s *screen) draw(lines []string) {
	var b strings.Builder
	b.WriteString("\x1b[?25l")
	s.back(&b)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if strings.HasPrefix(line, "> ") {
			line = "\x1b[7m" + line + "\x1b[0m"
		}
		b.WriteString(line)
	}
	s.drawn, s.rows = lines, len(lines)
	s.tty.WriteString(b.String())
}

// back moves to where drawing began, and erases.
func (s *screen) back(b *strings.Builder) {
	if s.rows > 1 {
		fmt.Fprintf(b, "\x1b[%dA", s.rows-1)
	}
	if s.rows > 0 {
		b.WriteString("\r\x1b[J")
	}
}

func (s *screen) clear() {
	var b strings.Builder
	s.back(&b)
	b.WriteString("\x1b[?25h")
	s.tty.WriteString(b.String())
}
