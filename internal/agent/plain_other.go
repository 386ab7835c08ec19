//go:build !linux

package agent

import (
	"os"
	"syscall"
)

// openPlain opens a file that is no link. There are no sandboxes here that could make one on
// the way to it.
func openPlain(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}
