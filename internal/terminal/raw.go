package terminal

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// State is how a terminal was set before Raw or Hide.
type State struct {
	fd       int
	mu       sync.Mutex
	restored bool
	termios  unix.Termios
}

// change sets a terminal otherwise, and returns how it was.
func change(fd int, to func(*unix.Termios)) (*State, error) {
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, fmt.Errorf("read terminal settings: %w", err)
	}
	s := &State{fd: fd, termios: *old}
	return s, s.set(to)
}

func (s *State) set(to func(*unix.Termios)) error {
	t := s.termios
	to(&t)
	if err := unix.IoctlSetTermios(s.fd, setTermios, &t); err != nil {
		return fmt.Errorf("change terminal settings: %w", err)
	}
	return nil
}

// Raw puts the terminal into raw mode: keys come one by one, are not shown, and raise no signals,
// as all of this is up to the terminal in the sandbox.
func Raw(fd int) (*State, error) { return change(fd, raw) }

func raw(t *unix.Termios) {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP |
		unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN] = 1
	t.Cc[unix.VTIME] = 0
}

// Hide keeps what is typed from being shown. Lines and signals are as before.
func Hide(fd int) (*State, error) {
	return change(fd, func(t *unix.Termios) {
		t.Lflag &^= unix.ECHO
		t.Lflag |= unix.ICANON | unix.ISIG | unix.ECHONL
	})
}

// Again puts the terminal back into raw mode after somebody else has set it otherwise. It
// does nothing after Restore.
func (s *State) Again() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restored {
		return nil
	}
	return s.set(raw)
}

// Restore puts the terminal back to how it was before Raw. It may be called
// from several goroutines, as from a deferred call and a signal handler; once
// it has succeeded, further calls do nothing. A nil State does nothing.
//
// It does not wait for output to be read, or a terminal stopped with Ctrl-S would hold it forever.
func (s *State) Restore() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restored {
		return nil
	}
	if err := unix.IoctlSetTermios(s.fd, setTermios, &s.termios); err != nil {
		return fmt.Errorf("restore terminal settings: %w", err)
	}
	s.restored = true
	return nil
}

// Size returns the terminal's width and height in characters. Both are 0 on
// terminals that do not know, such as serial lines.
func Size(fd int) (columns, rows int, err error) {
	ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, fmt.Errorf("read terminal size: %w", err)
	}
	return int(ws.Col), int(ws.Row), nil
}

// IsTerminal reports whether fd is a terminal.
func IsTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, getTermios)
	return err == nil
}
