// Package room says how much of a file system is kept free, and when to look at it again.
//
// Who is no administrator can give a sandbox no quota. What can be done is to look how much is
// free, often enough that nobody can have used it up since: the less there is above the floor, the
// sooner comes the next look. With much above it, looks are rare and cost nothing.
//
// All of it is arithmetic, but for [Open], which is for the kernel's word.
package room

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Default is how many bytes are kept free if nobody says otherwise.
const Default = 1 << 30

// How often there is a look.
const (
	seldom = 10 * time.Second
	often  = 2 * time.Millisecond
	// While programs wait for room, there is less hurry: they are stopped.
	waiting = 250 * time.Millisecond
	settled = 10 * time.Millisecond
)

// How fast a disk can be filled: what is written goes to memory first, by several processors.
const (
	bytesPerSecond = 16 << 30
	filesPerSecond = 4 << 20
)

// A Free is what a file system has left for ordinary users.
type Free struct {
	Bytes uint64
	Files uint64 // that can still be made; zero if the file system does not count them
}

// Less says that there is less of something than there was.
func (f Free) Less(was Free) bool { return f.Bytes < was.Bytes || f.Files < was.Files }

// A Floor is what of it is kept. Zero is nothing.
type Floor struct{ Bytes, Files uint64 }

// NewFloor is the floor for a number of bytes to keep, on a file system of which so much is
// free. It is never more than half of that: a disk that is nearly full already shall not be in
// the way. Of the files that can be made it keeps one for each 16 KiB, which is how many file systems
// are made for.
func NewFloor(bytes uint64, now Free) Floor {
	if bytes == 0 {
		return Floor{}
	}
	return Floor{min(bytes, now.Bytes/2), min(bytes>>14, now.Files/2)}
}

// Low says that less than the floor is left.
func (f Floor) Low(now Free) bool { return now.Bytes < f.Bytes || now.Files < f.Files }

// Ample says that there is enough above it to go on. Who made room for a moment would have to do
// so again in the next one.
func (f Floor) Ample(now Free) bool {
	return now.Bytes >= f.Bytes+f.Bytes/8 && now.Files >= f.Files+f.Files/8
}

// Falling says that half of the floor is gone as well.
func (f Floor) Falling(now Free) bool {
	return Floor{f.Bytes / 2, f.Files / 2}.Low(now)
}

// Next is when to look again while programs run: before they can have come to the floor.
func (f Floor) Next(now Free) time.Duration {
	return max(often, f.until(now, seldom))
}

// Wait is the same while they wait: before who is in the middle of a long system call, and
// cannot be stopped, can have come to half of it.
func (f Floor) Wait(now Free) time.Duration {
	return max(settled, Floor{f.Bytes / 2, f.Files / 2}.until(now, waiting))
}

func (f Floor) until(now Free, most time.Duration) time.Duration {
	return min(most, take(now.Bytes, f.Bytes, bytesPerSecond), take(now.Files, f.Files, filesPerSecond))
}

// take is how long it takes at least to come from one amount to another.
func take(from, to, perSecond uint64) time.Duration {
	if to == 0 {
		return math.MaxInt64
	}
	if from <= to {
		return 0
	}
	seconds := float64(from-to) / float64(perSecond)
	return time.Duration(min(seconds, seldom.Seconds()) * float64(time.Second))
}

// Lacks says in words what there is less of than the floor.
func (f Floor) Lacks(now Free) string {
	if now.Bytes < f.Bytes {
		return "less than " + size(f.Bytes) + " is free"
	}
	return fmt.Sprintf("fewer than %d files can be made", f.Files)
}

// size is a number of bytes as people say it.
func size(bytes uint64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if n := float64(bytes) / float64(uint64(1)<<(30-10*i)); n >= 1 {
			return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64) + " " + unit
		}
	}
	return fmt.Sprint(bytes, " bytes")
}
