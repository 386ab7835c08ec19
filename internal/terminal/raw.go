package terminal

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// State is how a terminal was set before Raw, Hide or Mute.
type State struct {
	fd       int
	mu       sync.Mutex
	restored bool
	termios  unix.Termios
}

// Raw puts the terminal into raw mode: keys come one by one, are not shown,
// and raise no signals, as all of this is up to the terminal in the sandbox.
func Raw(fd int) (*State, error) {
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, fmt.Errorf("read terminal settings: %w", err)
	}
	s := &State{fd: fd, termios: *old}
	if err := s.raw(); err != nil {
		return nil, err
	}
	return s, nil
}

// Hide keeps what is typed from being shown. Lines and signals are as before.
func Hide(fd int) (*State, error) {
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, fmt.Errorf("read terminal settings: %w", err)
	}
	hidden := *old
	hidden.Lflag &^= unix.ECHO
	hidden.Lflag |= unix.ICANON | unix.ISIG | unix.ECHONL
	if err := unix.IoctlSetTermios(fd, setTermios, &hidden); err != nil {
		return nil, fmt.Errorf("hide what is typed: %w", err)
	}
	return &State{fd: fd, termios: *old}, nil
}

// Mute keeps what is typed for who reads it later, and from being shown. Ctrl-C does what it
// does; the other keys that raise signals are keys. It does nothing, and returns nil, for who
// is not in the terminal's foreground: whatever is typed is not for him.
func Mute(fd int) *State {
	if front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || front != unix.Getpgrp() {
		return nil
	}
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil
	}
	muted := *old
	muted.Lflag &^= unix.ECHO | unix.ECHONL
	muted.Cc[unix.VQUIT], muted.Cc[unix.VSUSP] = noKey, noKey
	if unix.IoctlSetTermios(fd, setTermios, &muted) != nil {
		return nil
	}
	return &State{fd: fd, termios: *old}
}

// raw puts it into raw mode.
func (s *State) raw() error {
	raw := s.termios
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP |
		unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag &^= unix.CSIZE | unix.PARENB
	raw.Cflag |= unix.CS8
	raw.Cc[unix.VMIN] = 1
	raw.Cc[unix.VTIME] = 0
	if err := unix.IoctlSetTermios(s.fd, setTermios, &raw); err != nil {
		return fmt.Errorf("set terminal to raw mode: %w", err)
	}
	return nil
}

// Again puts the terminal back into raw mode after somebody else has set it otherwise. It
// does nothing after Restore.
func (s *State) Again() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restored {
		return nil
	}
	return s.raw()
}

// Restore puts the terminal back to how it was before Raw. It may be called
// from several goroutines, as from a deferred call and a signal handler; once
// it has succeeded, further calls do nothing. A nil State does nothing.
//
// It does not wait for output to be read, or a terminal stopped with Ctrl-S
// would hold it forever.
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
