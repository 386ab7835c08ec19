package rootfs

import (
	"bufio"
	"fmt"
	"github.com/cofferhq/coffer/internal/safepath"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A read-only mount does not keep anybody from connecting to a socket in it: behind
// one in the workspace, say an editor's, may be a host process that takes orders. So
// those that exist are covered. (Landlock will be able to, from its ninth version on.)

// maxLook bounds the search for sockets whose whole path the kernel does not tell.
const maxLook = 20000

// maskSockets covers the sockets of the host below the places that are shown.
func (p *Plan) maskSockets(v View) error {
	look := v.Workspace
	if v.Mode != Direct {
		look = ""
	}
	var mounts []string
	for _, m := range v.Mounts {
		mounts = append(mounts, m.Source)
	}
	paths, err := Sockets(look, mounts...)
	if err != nil {
		return err
	}
	places := p.Steps
	for _, path := range paths {
		for _, s := range places {
			// A socket seen through an overlay is nobody's.
			if s.Do == Bind && !s.Device && safepath.Within(path, s.Source) && !safepath.Within(s.Target, Own) {
				p.add(Step{Do: Mask, Target: s.Target + strings.TrimPrefix(path, s.Source), Optional: true})
			}
		}
	}
	return nil
}

// Sockets lists the Unix sockets of the host by their real paths. The kernel does not tell
// the whole path of those that were bound by a relative one: if there are such, they are
// looked for in dir, if there is one. Nor does it tell of those of other network
// namespaces, say of containers: these are looked for in the mounts, which are fewer and
// smaller than a workspace.
func Sockets(dir string, mounts ...string) ([]string, error) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("list the host's sockets: %w", err)
	}
	defer f.Close()
	paths, relative, err := unixSockets(f)
	if err != nil {
		return nil, fmt.Errorf("list the host's sockets: %w", err)
	}
	if relative && dir != "" {
		paths = append(paths, socketsIn(dir)...)
	}
	for _, m := range mounts {
		paths = append(paths, socketsIn(m)...)
	}
	var real []string
	dirs := map[string]string{} // where each really is, or nothing
	for _, path := range paths {
		dir := filepath.Dir(path)
		at, known := dirs[dir]
		if !known {
			at, _ = filepath.EvalSymlinks(dir)
			dirs[dir] = at
		}
		if at == "" {
			continue
		}
		path = filepath.Join(at, filepath.Base(path))
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			real = append(real, path)
		}
	}
	slices.Sort(real)
	return slices.Compact(real), nil
}

// socketsIn looks for sockets in a directory tree.
func socketsIn(dir string) (paths []string) {
	looked := 0
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if looked++; looked > maxLook {
			return fs.SkipAll
		}
		if err == nil && d.Type()&fs.ModeSocket != 0 {
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

// unixSockets reads the bound paths from a file like /proc/net/unix. Those that were
// bound by a relative path it cannot tell, only that there are some.
func unixSockets(r io.Reader) (paths []string, relative bool, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
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
		switch path := strings.TrimPrefix(rest, " "); {
		case strings.HasPrefix(path, "/"):
			paths = append(paths, path)
		case path != "" && path[0] != '@' && path != "Path":
			relative = true
		}
	}
	return paths, relative, lines.Err()
}
