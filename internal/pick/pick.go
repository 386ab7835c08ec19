package pick

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/terminal"
	"golang.org/x/sys/unix"
)

// ErrCancelled says that the person chose nothing.
var ErrCancelled = errors.New("nothing was chosen")

// most is how many lines are shown at a time.
const most = 12

// Choose shows a list on a terminal and returns which item was chosen.
func Choose(tty *os.File, title string, items []Item) (int, error) {
	fd := int(tty.Fd())
	state, err := terminal.Raw(fd)
	if err != nil {
		return 0, err
	}
	defer state.Restore()
	width, height, _ := terminal.Size(fd)
	if width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var shown []Item
	for _, item := range items {
		var clean Item
		for _, col := range item {
			clean = append(clean, terminal.Escape(col))
		}
		shown = append(shown, clean)
	}
	l := newList(title, shown, min(most, height-2))
	l.keys = "arrows and Enter; letters search; Esc leaves"
	s := &screen{tty: tty}
	defer s.clear()
	var in []byte
	for {
		s.draw(l.lines(width))
		if in, err = read(fd, in, -1); err != nil {
			return 0, err
		}
		for len(in) > 0 {
			var key string
			if key, in = next(in, false); key == "" {
				// Escape, or the beginning of something: it comes at once or not at all.
				before := len(in)
				if in, err = read(fd, in, 50); err != nil {
					return 0, err
				}
				key, in = next(in, len(in) == before)
			}
			switch l.key(key) {
			case chosen:
				return l.hits[l.at], nil
			case cancelled:
				return 0, ErrCancelled
			}
		}
	}
}

// read adds what comes from the terminal, waiting for so many milliseconds, or without an
// end. It goes to the kernel directly: a file of Go's would not let us wait in between.
func read(fd int, in []byte, wait int) ([]byte, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, wait)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return in, err
		}
		buf := make([]byte, 256)
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
	tty  *os.File
	rows int // that are drawn
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
	s.rows = len(lines)
	s.tty.WriteString(b.String())
}

// back goes to where drawing began, and erases.
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
