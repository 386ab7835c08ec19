package rootfs

import (
	"github.com/cofferhq/coffer/internal/safepath"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A HostRoot is the host as it is, read-only, with some places writable: what a program in a
// jail sees. Paths are the host's, without symbolic links, and lists are outer before inner.
type HostRoot struct {
	Home     string   // covered by an empty one, if there is one
	Shown    []string // what of the covered directories is shown, read-only
	Write    []string // what can be written to; none lies in another
	Locked   []string // what of it cannot, and stays where it is
	Silent   []string // which of these are read as empty files
	Reopened []string // what of Locked can be written to all the same
	Sockets  []string // covered, because a read-only mount keeps nobody from connecting
	Hidden   []string // what must stay unread
	Terminal string   // the device that the program is started on, if any
	Resolver string   // what is in the file that names the resolvers, if not what is there
	SameProc bool     // show the host's /proc
	Ceilings bool     // programs are in a user namespace of their own
}

// Plan plans the root. What the program may write to, for the second wall, is what Writable
// says.
func (h *HostRoot) Plan() (*Plan, error) {
	p := &Plan{Writable: slices.Clone(h.Write)}
	if err := p.hostTop(); err != nil {
		return nil, err
	}
	p.add(Step{Do: Bind, Source: "/proc", Target: "/proc", ReadOnly: true})
	if !h.SameProc {
		s := Step{Do: Proc, Target: "/proc", ReadOnly: true, Optional: true}
		if h.Ceilings {
			s.Data = ceilings()
		}
		p.add(s)
	}
	// Of a device on a read-only mount nothing can be changed, but all written to it.
	p.devices(true)
	p.add(Step{Do: Closed, Target: Empty}) // over hidden directories
	if h.Terminal != "" && !strings.HasPrefix(h.Terminal, "/dev/tty") {
		// Of another devpts than the one here. By this name C libraries find it.
		p.add(Step{Do: Bind, Source: h.Terminal, Target: "/dev/console", Device: true, ReadOnly: true})
	}
	p.Writable = append(p.Writable, "/dev")
	for _, dir := range []string{"/tmp", "/run", "/var/tmp", h.Home} {
		if info, err := os.Lstat(dir); dir != "" && err == nil && info.IsDir() {
			p.add(Step{Do: Scratch, Target: dir, Shared: dir != "/run" && dir != h.Home})
			p.Writable = append(p.Writable, dir)
		}
	}
	for _, path := range h.Shown {
		p.add(Step{Do: Bind, Source: path, Target: path, ReadOnly: true})
	}
	if file, err := filepath.EvalSymlinks(resolvConf); err == nil && h.Resolver != "" {
		p.add(Step{Do: Replace, Target: file, Data: h.Resolver})
	}
	for _, path := range h.Write {
		p.add(Step{Do: Bind, Source: path, Target: path})
	}
	p.lockAndHide(h)
	return p, nil
}

// hostTop shows what is in the host's root directory, but for what is different in a jail.
func (p *Plan) hostTop() error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := "/" + e.Name()
		switch {
		case slices.Contains([]string{"/proc", "/dev", "/tmp", "/run", Own, oldRoot}, path):
		case e.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			p.add(Step{Do: Symlink, Target: path, Data: to})
		case e.IsDir() || e.Type().IsRegular():
			p.add(Step{Do: Bind, Source: path, Target: path, ReadOnly: true})
		}
	}
	return nil
}

// lockAndHide closes what lies in writable places. A mount point can be neither renamed nor
// removed, so the directories above become mount points too.
func (p *Plan) lockAndHide(h *HostRoot) {
	seen := map[string]bool{}
	for _, path := range h.Locked {
		if !p.pinAbove(h.Write, path, seen) {
			continue // it is in no writable place
		}
		seen[path] = true
		if slices.Contains(h.Silent, path) {
			p.add(Step{Do: Mask, Target: path})
		} else {
			p.add(Step{Do: Lock, Target: path})
		}
	}
	for _, path := range h.Reopened {
		p.add(Step{Do: Bind, Source: path, Target: path})
	}
	for _, path := range h.Sockets {
		p.add(Step{Do: Mask, Target: path, Optional: true})
	}
	for _, path := range h.Hidden {
		p.pinAbove(h.Write, path, seen)
		p.add(Step{Do: Forbid, Target: path, Optional: true})
	}
}

// pinAbove pins the directories between a writable place and a path in it, and says whether
// there is such a place.
func (p *Plan) pinAbove(write []string, path string, pinned map[string]bool) bool {
	for _, place := range write {
		if !safepath.Within(path, place) {
			continue
		}
		for _, above := range Above(strings.TrimPrefix(path, place+"/")) {
			if at := filepath.Join(place, above); !pinned[at] {
				pinned[at] = true
				p.add(Step{Do: Pin, Target: at})
			}
		}
		return true
	}
	return false
}
