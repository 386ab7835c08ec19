package limits

import (
	"fmt"
	"math"
	"strconv"
)

// DefaultKeepFree is how many bytes of a disk programs leave free if nobody says otherwise.
const DefaultKeepFree = 1 << 30

// space is an amount of a file system.
type space struct{ bytes, files uint64 }

// floorFor is what is to stay free of a file system of which so much is free now. It is never more than
// half of that: a disk that is nearly full already must not be in the way. Of the files that can
// be made it keeps one for each 16 KiB, which is how many file systems are made for. One that does not
// count its files has none free, and keeps none.
func floorFor(keep uint64, free space) space {
	return space{min(keep, free.bytes/2), min(keep>>14, free.files/2)}
}

// short says what there is less of than the floor, or nothing.
func (floor space) short(free space) string {
	switch {
	case free.bytes < floor.bytes:
		return "less than " + size(floor.bytes) + " is free"
	case free.files < floor.files:
		return fmt.Sprintf("fewer than %d files can be made", floor.files)
	}
	return ""
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
