package jail

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// addOlder adds calls that newer architectures do not have.
func addOlder(calls map[int32]call) {
	calls[unix.SYS_CHMOD] = call{none, 0, none, false, chmodTo(1)}
	calls[unix.SYS_CHOWN] = call{none, 0, none, false, chownTo(1)}
	calls[unix.SYS_LCHOWN] = call{none, 0, none, true, chownTo(1)}
	calls[unix.SYS_UTIME] = call{none, 0, none, false, timesTo(1, seconds)}
	calls[unix.SYS_UTIMES] = call{none, 0, none, false, timesTo(1, microseconds)}
	calls[unix.SYS_FUTIMESAT] = call{0, 1, none, false, timesTo(2, microseconds)}
}

var seconds = clock{16, func(b []byte) [2]unix.Timespec {
	n := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[8*i:])) }
	return [2]unix.Timespec{{Sec: n(0)}, {Sec: n(1)}}
}}

var microseconds = clock{32, func(b []byte) [2]unix.Timespec {
	ts := nanoseconds.parse(b)
	for i := range ts {
		if ts[i].Nsec < 0 || ts[i].Nsec >= 1e6 {
			ts[i].Nsec = 1e9 // not a time, as the kernel will say
			continue
		}
		ts[i].Nsec *= 1000
	}
	return ts
}}
