package knock

import (
	"syscall"
	"time"
)

// moment is how long a program is waited for. Most that are started by
// others, without a terminal, are over by then, and then there is nothing to set up for them.
// A signal that comes meanwhile ends us, as it does whoever has said nothing else.
const moment = 5 * time.Millisecond

// over waits for a program that is soon over, and says whether all was well and there is
// nothing more to do. Otherwise what has been said is in k.Said: what takes longer, failed, is
// on a terminal, or has the supervisor tell something is for others.
func (k *Knock) over(dir, record string) bool {
	limit := syscall.NsecToTimeval(int64(moment))
	if syscall.SetsockoptTimeval(k.Socket, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit) != nil {
		return false
	}
	patient := exists(dir+"/git") || exists(dir+"/include") // which has commits brought over afterwards
	buf, all := make([]byte, 4096), false
	for !all && time.Since(k.At) < moment {
		n, err := syscall.Read(k.Socket, buf[len(k.Said):])
		if err != nil || n <= 0 {
			break
		}
		k.Said = buf[:len(k.Said)+n]
		var simple bool
		if all, simple = heard(k.Said, patient); !simple {
			all = false
			break
		}
	}
	if all && settled(record) && forFiles(k.Said) {
		if k.Said = show(k.Said); k.Said == nil {
			return true
		}
	}
	_ = syscall.SetsockoptTimeval(k.Socket, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{})
	return false
}

// The frames of package wire, each with its length in four bytes, that there are for a program
// that printed something and was successful.
const (
	output, errs   = 1, 2
	taken, started = 't', 's'
	exited         = 'x' // with two bytes that are zero
	lost           = 'l' // and that is all that there is to say

	head = 5
)

// heard says whether what was heard is all that will be, and nothing but that. Who is patient
// hears the supervisor out.
func heard(b []byte, patient bool) (all, simple bool) {
	ended := false
	for len(b) >= head {
		kind, body, rest := next(b)
		if body == nil {
			break
		}
		b = rest
		switch {
		case !ended && (kind == taken || kind == started) && len(body) == 0:
		case !ended && (kind == output || kind == errs):
		case !ended && kind == exited && len(body) == 2 && body[0]|body[1] == 0:
			ended = true
			if !patient {
				return true, true
			}
		case ended && kind == lost && len(body) == 0:
			return true, true
		default:
			return false, false
		}
	}
	return false, true
}

// next is the first frame, and what is behind it. A body that is not all here is nil.
func next(b []byte) (kind byte, body, rest []byte) {
	n := int(uint32(b[1])<<24 | uint32(b[2])<<16 | uint32(b[3])<<8 | uint32(b[4]))
	if n > len(b)-head {
		return b[0], nil, nil
	}
	return b[0], b[head : head+n], b[head+n:]
}

// forFiles says that nothing of what was heard is for a terminal.
func forFiles(b []byte) bool {
	for len(b) >= head {
		kind, _, rest := next(b)
		if (kind == output || kind == errs) && isTerminal(int(kind)) {
			return false
		}
		b = rest
	}
	return true
}

// show prints what was heard. What cannot be written is for who can say so, as if it had just
// been heard.
func show(b []byte) (left []byte) {
	for len(b) >= head {
		kind, body, rest := next(b)
		b = rest
		if kind != output && kind != errs {
			continue
		}
		if body = write(int(kind), body); len(body) > 0 {
			left = append(left, started, 0, 0, 0, 0)
			left = append(left, kind, 0, 0, byte(len(body)>>8), byte(len(body))) // it was in a small buffer
			return append(append(left, body...), rest...)
		}
	}
	return nil
}

// write writes to a descriptor, and returns what it could not. The program is over: if nobody
// reads it, there is nobody to tell.
func write(fd int, b []byte) (left []byte) {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN: // somebody made it so
			wait(fd)
		case err == syscall.EPIPE:
			return nil
		case err != nil:
			return b
		default:
			b = b[n:]
		}
	}
	return nil
}

// settled says whether nothing is to be warned of: a workspace without a repository that now
// looks like one.
func settled(record string) bool {
	if !contains(record, "\n  \"made_git\": true") {
		return true
	}
	for i := range len(record) {
		if !hasPrefix(record[i:], workspace) {
			continue
		}
		path := record[i+len(workspace):]
		for n := range len(path) {
			if path[n] == '"' {
				return plain(path[:n]) && !exists(path[:n]+"/HEAD")
			}
		}
	}
	return false
}
