package terminal

import (
	"bytes"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a terminal is waited for.
type patience struct {
	// silence without the answer to our question means that it will not come. Real
	// terminals answer at once, but the line to one may be slow, and so may this machine.
	silence time.Duration
	// settle without more, after the answer, is the end. A program that asked the same
	// question makes the first answer look like ours.
	settle time.Duration
	// limit is the end of it, whatever a hostile program has queued up.
	limit time.Duration
}

var usual = patience{silence: 2 * time.Second, settle: 30 * time.Millisecond, limit: 4 * time.Second}

// giveUp is the key, Ctrl-C, of a user who does not want to wait.
const giveUp = 0x03

// The question is "are you well" (DSR), which every terminal since the VT100
// answers, in order, so that after its answer no other is outstanding.
const (
	sentinel      = "\x1b[5n"
	sentinelReply = "\x1b[0n"
)

// Drain discards what the terminal sends on behalf of a program that has ended, so that it is not
// typed into the shell. The terminal must still be in raw mode, and nothing else may be reading
// from in. When asked is set, as by Filter.Asked, answers may still be on the way: Drain then waits
// for them, until the terminal has answered a question of our own, which comes after theirs, and
// for a few seconds at most. Ctrl-C ends the wait.
//
// What the user typed meanwhile is discarded as well: it was meant for the
// program. On what is not a terminal, Drain does nothing.
func Drain(in, out *os.File, asked bool) { usual.drain(in, out, asked) }

func (p patience) drain(in, out *os.File, asked bool) {
	withFd(in, func(inFd int) {
		if !IsTerminal(inFd) {
			return
		}
		if asked {
			withFd(out, func(outFd int) {
				if IsTerminal(outFd) {
					p.awaitAnswers(inFd, outFd)
				}
			})
		}
		// Fails only if the terminal is gone, and the input with it.
		_ = flushInput(inFd)
	})
}

// withFd calls f with the descriptor of a file. File.Fd would do as well, but
// switch the file to blocking mode, for which it may be too late or too early.
func withFd(file *os.File, f func(fd int)) {
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { f(int(fd)) })
}

// awaitAnswers asks and reads until the answer, or for as long as it is worth.
func (p patience) awaitAnswers(in, out int) {
	end := time.Now().Add(p.limit)
	// Byte by byte, as ready means room for one, and a blocked write could not be called off.
	for _, b := range []byte(sentinel) {
		if !ready(out, unix.POLLOUT, writable) {
			return // stopped by the user or gone: nothing will be answered
		}
		if _, err := unix.Write(out, []byte{b}); err != nil {
			return
		}
	}
	wait := p.silence
	var tail []byte // the answer may come in pieces
	buf := make([]byte, 4096)
	for time.Now().Before(end) && ready(in, unix.POLLIN, wait) {
		n, err := unix.Read(in, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil || n == 0 || bytes.IndexByte(buf[:n], giveUp) >= 0 {
			return
		}
		tail = append(tail, buf[:n]...)
		if bytes.Contains(tail, []byte(sentinelReply)) {
			wait = p.settle
		}
		tail = tail[max(0, len(tail)-len(sentinelReply)+1):]
	}
}

// writable is how long a terminal may take to have room for a byte.
const writable = 200 * time.Millisecond

// ready waits until fd can be read or written. A signal does not end the wait.
func ready(fd int, event int16, patience time.Duration) bool {
	end := time.Now().Add(patience)
	for {
		left := max(time.Until(end), 0)
		fds := []unix.PollFd{{Fd: int32(fd), Events: event}}
		// Rounded up: the last fraction of a millisecond would be spun away.
		n, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond))
		if errors.Is(err, unix.EINTR) {
			continue // the last look takes no time
		}
		return err == nil && n > 0 && fds[0].Revents&event != 0
	}
}
