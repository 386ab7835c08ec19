package sandbox

import (
	"fmt"
	"path/filepath"
)

// maxSocketPath stays below what a socket address holds: 108 bytes on Linux, 104 on macOS.
const maxSocketPath = 100

// Socket returns a path of control.sock to listen on or connect to. Usually it is
// the file's own; where that is too long for a socket address, it is a detour
// that works until release is called and only in this process. A listener must
// be closed before release, because it unlinks the path it was given.
func (sb *Sandbox) Socket() (path string, release func(), err error) {
	path = filepath.Join(sb.dir, socketName)
	if len(path) < maxSocketPath {
		return path, func() {}, nil
	}
	dir, release, err := shortDir(sb.dir)
	if err != nil {
		return "", nil, fmt.Errorf("find a short path for %s: %w", path, err)
	}
	return filepath.Join(dir, socketName), release, nil
}
