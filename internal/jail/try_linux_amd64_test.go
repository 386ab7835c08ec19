package jail

import (
	"github.com/cofferhq/coffer/internal/confine/int80"
	"golang.org/x/sys/unix"
)

// thirtyTwo makes a call of the 32-bit ABI: getpid, which always works.
func thirtyTwo() error {
	const getpid = 20
	if got := int80.Call(getpid); got < 0 {
		return unix.Errno(-got)
	}
	return nil
}
