package rootfs

import (
	"os"
	"path/filepath"
)

// A Cache is a directory of the host that the sandbox sees at Target and changes only for
// itself: an overlay, whose upper layer is the sandbox's own. So no sandbox can plant a
// package for another one, or for the user.
type Cache struct {
	Name           string // of the layer
	Source, Target string
}

// clones are directories of a cache with clones of git repositories, whose configuration may
// hold a token. The sandbox has an empty directory in their place.
var clones = []string{"cache/vcs", "git-v0"}

// caches lays the overlays. Each takes a millisecond or so.
func (p *Plan) caches(v View) {
	for _, c := range v.Caches {
		lower := Own + "/caches/" + c.Name
		p.add(
			Step{Do: Bind, Source: c.Source, Target: lower, Mine: true, ReadOnly: true},
			Step{Do: Overlay, Source: lower, Target: c.Target, Data: "caches/" + c.Name},
		)
		for _, name := range clones {
			if info, err := os.Lstat(filepath.Join(c.Source, name)); err == nil && info.IsDir() {
				p.add(Step{Do: Scratch, Target: filepath.Join(c.Target, name)})
			}
		}
	}
}
