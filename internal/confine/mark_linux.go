package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A mark says that a process is confined, to others of the same user that it might ask to
// act for it. It must be one that is inherited and that nobody can take off. The upper limit
// for locks is such a thing: without privileges it can only be lowered, and it has limited
// nothing since Linux 2.4.25. Nobody else sets it to zero.

// Mark marks this process and all that will descend from it.
func Mark() error {
	if err := unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{}, nil); err != nil {
		return fmt.Errorf("mark this process: %w", err)
	}
	return nil
}

// Marked says whether a process of the same user is marked.
func Marked(pid int) (bool, error) {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &now); err != nil {
		return false, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return now.Max == 0, nil
}
