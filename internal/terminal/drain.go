package terminal

import (
	"bytes"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A terminal that has not answered for this long is not going to.
	drainSilence = 200 * time.Millisecond
	// After the answer to our question, this long without more is the end.
	// A program that asked the same question makes the first answer look
	// like ours.
	drainSettle = 30 * time.Millisecond
	// Whatever a hostile program has queued up, this is the end of it.
	drainLimit = 2 * time.Second
)

// The question is "are you well" (DSR), which every terminal since the VT100
// answers, in order, so that after its answer no other is outstanding.
const (
	sentinel      = "\x1b[5n"
	sentinelReply = "\x1b[0n"
)

// Drain discards what the terminal sends on behalf of a program that has
// ended, so that it is not typed into the shell. The terminal must still be
// in raw mode, and nothing else may be reading from in. When asked is set,
// as by Filter.Asked, answers may still be on the way: Drain then waits for
// them, for as long as the terminal keeps sending and at most two seconds.
//
// What the user typed meanwhile is discarded as well: it was meant for the
// program. On what is not a terminal, Drain does nothing.
func Drain(in, out *os.File, asked bool) {
	withFd(in, func(inFd int) {
		if !IsTerminal(inFd) {
			return
		}
		if asked {
			withFd(out, func(outFd int) {
				if IsTerminal(outFd) {
					awaitAnswers(inFd, outFd)
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
func awaitAnswers(in, out int) {
	end := time.Now().Add(drainLimit)
	// Byte by byte, as ready means room for one, and a blocked write could
	// not be called off.
	for _, b := range []byte(sentinel) {
		if !ready(out, unix.POLLOUT, drainSilence) {
			return // stopped by the user or gone: nothing will be answered
		}
		if _, err := unix.Write(out, []byte{b}); err != nil {
			return
		}
	}
	patience := drainSilence
	var tail []byte // the answer may come in pieces
	buf := make([]byte, 4096)
	for time.Now().Before(end) && ready(in, unix.POLLIN, patience) {
		n, err := unix.Read(in, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		tail = append(tail, buf[:n]...)
		if bytes.Contains(tail, []byte(sentinelReply)) {
			patience = drainSettle
		}
		tail = tail[max(0, len(tail)-len(sentinelReply)+1):]
	}
}

// ready waits until fd can be read or written. A signal does not end the wait.
func ready(fd int, event int16, patience time.Duration) bool {
	end := time.Now().Add(patience)
	for {
		left := max(time.Until(end), 0)
		fds := []unix.PollFd{{Fd: int32(fd), Events: event}}
		// Rounded up: the last fraction of a millisecond would be spun away.
		n, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond))
		if errors.Is(err, unix.EINTR) && left > 0 {
			continue
		}
		return err == nil && n > 0 && fds[0].Revents&event != 0
	}
}
