package rootfs

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A read-only mount does not keep anybody from connecting to a socket in it: behind
// one in the workspace, say an editor's, may be a host process that takes orders. So
// those that exist are covered. (Landlock will be able to, from its ninth version on.)

// maskSockets covers the sockets of the host below the places that are shown.
func (p *Plan) maskSockets(shown []string) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return
	}
	defer f.Close()
	for _, path := range unixSockets(f) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			continue
		}
		path = filepath.Join(dir, filepath.Base(path))
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&os.ModeSocket == 0 {
			continue
		}
		for _, s := range shown {
			if Within(path, s) {
				p.add(Step{Do: Mask, Target: path})
				break
			}
		}
	}
}

// unixSockets reads the bound paths from a file like /proc/net/unix.
func unixSockets(r io.Reader) (paths []string) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		// Seven columns, then the path, which may have spaces in it.
		rest := lines.Text()
		for range 7 {
			rest = strings.TrimLeft(rest, " ")
			i := strings.IndexByte(rest, ' ')
			if i < 0 {
				rest = ""
				break
			}
			rest = rest[i:]
		}
		if path := strings.TrimPrefix(rest, " "); strings.HasPrefix(path, "/") {
			paths = append(paths, path)
		}
	}
	return paths
}
