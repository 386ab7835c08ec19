package kernel

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// The messages to the kernel are written by hand. The libraries that write them well
// (vishvananda/netlink, google/nftables) would cost every start of our binary 0.1 to
// 0.2 ms for their own initialisation, which is as much as all of the messages take.

// batch is a row of netlink messages that are sent as one.
type batch struct {
	bytes    []byte
	sequence uint32
	wanted   map[uint32]string // the messages that are acknowledged, and what they do
	forgiven map[uint32]bool   // the messages that may fail
	open     []int             // where the message and the nested attributes begin
}

// optional says that the message may fail: not every kernel knows what it asks for.
func (b *batch) optional() {
	if b.forgiven == nil {
		b.forgiven = map[uint32]bool{}
	}
	b.forgiven[b.sequence] = true
}

// message begins a message. what says what it does, for errors; a message without is
// not acknowledged.
func (b *batch) message(kind, flags uint16, what string, header []byte) {
	b.finish()
	b.sequence++
	if what != "" {
		flags |= unix.NLM_F_ACK
		if b.wanted == nil {
			b.wanted = map[uint32]string{}
		}
		b.wanted[b.sequence] = what
	}
	b.open = append(b.open, len(b.bytes))
	b.bytes = append(b.bytes, 0, 0, 0, 0) // the length, when it is known
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, kind)
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, flags|unix.NLM_F_REQUEST)
	b.bytes = binary.NativeEndian.AppendUint32(b.bytes, b.sequence)
	b.bytes = append(b.bytes, 0, 0, 0, 0)
	b.bytes = append(b.bytes, header...)
}

// finish writes the length of the message that is open.
func (b *batch) finish() {
	if len(b.open) > 0 {
		start := b.open[0]
		binary.NativeEndian.PutUint32(b.bytes[start:], uint32(len(b.bytes)-start))
		b.open = b.open[:0]
	}
}

// attribute adds an attribute to the message.
func (b *batch) attribute(kind uint16, value []byte) {
	b.nest(kind, func() { b.bytes = append(b.bytes, value...) })
}

// text adds an attribute that is a string.
func (b *batch) text(kind uint16, value string) { b.attribute(kind, append([]byte(value), 0)) }

// number adds an attribute that is a number as nftables wants it.
func (b *batch) number(kind uint16, value uint32) {
	b.attribute(kind, binary.BigEndian.AppendUint32(nil, value))
}

// nest adds an attribute with what f adds inside it.
func (b *batch) nest(kind uint16, f func()) {
	start := len(b.bytes)
	b.bytes = append(b.bytes, 0, 0)
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, kind)
	f()
	binary.NativeEndian.PutUint16(b.bytes[start:], uint16(len(b.bytes)-start))
	for len(b.bytes)%4 != 0 {
		b.bytes = append(b.bytes, 0)
	}
}

// send gives the messages to the kernel and waits until all are acknowledged.
func (b *batch) send(protocol int) error {
	b.finish()
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer unix.Close(s)
	// Answers repeat what they answer otherwise.
	_ = unix.SetsockoptInt(s, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	if err := unix.Sendto(s, b.bytes, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("speak to the kernel: %w", err)
	}
	return b.hear(s, 0)
}

// hear reads the kernel's answers from a socket until there is one to every message.
func (b *batch) hear(s, flags int) error {
	buf := make([]byte, max(1<<16, len(b.wanted))) // not a constant, or it were on the stack, and cleared
	for len(b.wanted) > 0 {
		n, _, err := unix.Recvfrom(s, buf, flags)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("hear from the kernel: %w", err)
		}
		if err := b.heard(buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

// heard goes through the kernel's answers.
func (b *batch) heard(answers []byte) error {
	const header = unix.NLMSG_HDRLEN
	for len(answers) >= header {
		length := int(binary.NativeEndian.Uint32(answers))
		kind := binary.NativeEndian.Uint16(answers[4:])
		sequence := binary.NativeEndian.Uint32(answers[8:])
		if length < header || length > len(answers) {
			break
		}
		if kind == unix.NLMSG_ERROR && length >= header+4 {
			what, wanted := b.wanted[sequence]
			if code := int32(binary.NativeEndian.Uint32(answers[header:])); code != 0 && !b.forgiven[sequence] {
				return fmt.Errorf("%s: %w", what, unix.Errno(-code))
			}
			if wanted {
				delete(b.wanted, sequence)
			}
		}
		answers = answers[min((length+3)&^3, len(answers)):]
	}
	return nil
}
