package packet

import (
	"unsafe"

	"gvisor.dev/gvisor/pkg/buffer"
)

const (
	// roomSize is the largest buffer that the stack uses again and again.
	roomSize = buffer.MaxChunkSize
	// keepFrom is how large a payload must be to keep its room: no more than as much again
	// is wasted.
	keepFrom = roomSize / 2
)

// A room is where a frame is read into. It is a buffer of the stack's own, so that a large
// payload need not be copied to one; after a small one it is used again.
type room struct{ view *buffer.View }

// open is the memory to read into.
func (r *room) open() []byte {
	if r.view == nil {
		r.view = buffer.NewViewSize(roomSize)
	}
	return r.view.AsSlice()
}

// keep gives away the room as the buffer of a payload in it, if that is large; otherwise nil.
func (r *room) keep(payload []byte) *buffer.View {
	if r.view == nil || len(payload) < keepFrom {
		return nil
	}
	all := r.view.AsSlice()
	before := int(uintptr(unsafe.Pointer(&payload[0])) - uintptr(unsafe.Pointer(&all[0])))
	if before < 0 || before+len(payload) > len(all) {
		return nil // it is elsewhere
	}
	v := r.view
	r.view = nil
	v.TrimFront(before)
	v.CapLength(len(payload))
	return v
}

// close gives the room back.
func (r *room) close() {
	if r.view != nil {
		r.view.Release()
		r.view = nil
	}
}
