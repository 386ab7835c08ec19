// Package deep gives a goroutine, at once, the stack that it is going to need. It would get it
// in five steps otherwise, and each time all that is on it has to be looked through, and pages
// be found for stacks of a size that nobody uses again.
//
// It imports nothing, and so is initialised before what takes time: import it for that. The
// first goroutine, which does that, has its stack from here.
package deep

func init() { Grow() }

// Grow is for the beginning of a goroutine that goes deep, on the way of every start.
func Grow() { grow(false) }

// grow has a large frame, of which it does not touch a byte.
//
//go:noinline
func grow(touch bool) byte {
	if !touch {
		return 0
	}
	var room [24 << 10]byte
	return leak(&room)
}

//go:noinline
func leak(room *[24 << 10]byte) byte { return room[len(room)-1] }
