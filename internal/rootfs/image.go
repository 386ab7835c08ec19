package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// An image brings a root of its own: not only the system's directories, but whatever its maker
// has put beside them. All of it is shown, each thing by a mount of its own, but for the places
// that are the sandbox's. Where one of these lies in a directory of the image, that one is made
// anew, and what else is in it is shown in turn.

// imageOwn are the places of every sandbox, in which nothing of an image is seen.
var imageOwn = []string{Own, oldRoot, "/proc", "/sys", "/dev", "/tmp", "/run", "/var/run", "/var/tmp"}

// maxPieces bounds the mounts of an image. Those of this world have thirty or so.
const maxPieces = 120

// imageSystem shows the directories of an image. Its files belong to the user, and so to root of
// the sandbox: see [Plan.Owned].
func (p *Plan) imageSystem(v View) error {
	p.Owned = true
	g := graft{plan: p, tree: v.Image, own: append(slices.Clone(imageOwn), v.Home)}
	if v.Workspace != "" {
		g.own = append(g.own, v.Workspace)
	}
	for _, m := range v.Mounts {
		g.own = append(g.own, m.Target)
	}
	for _, c := range v.Caches {
		g.own = append(g.own, c.Target)
	}
	if err := g.dir("/"); err != nil {
		return err
	}
	p.add(
		Step{Do: Dir, Target: "/root", Optional: true},
		Step{Do: Dir, Target: "/var"},
		Step{Do: Symlink, Target: "/var/run", Data: "/run"},
	)
	return nil
}

// A graft puts the pieces of an image into a plan.
type graft struct {
	plan   *Plan
	tree   string
	own    []string
	pieces int
}

// dir shows what is in a directory of the image.
func (g *graft) dir(at string) error {
	entries, err := os.ReadDir(filepath.Join(g.tree, at))
	if err != nil {
		return fmt.Errorf("look at the image: %w", err)
	}
	for _, e := range entries {
		target := filepath.Join(at, e.Name())
		if slices.ContainsFunc(g.own, func(o string) bool { return target == o || safepath.Within(target, o) }) {
			continue
		}
		if g.pieces++; g.pieces > maxPieces {
			return ui.Error(fmt.Sprintf("the image has more than %d files and directories beside each other in %s", maxPieces, at),
				"choose another image, or have the workspace elsewhere")
		}
		above := slices.ContainsFunc(g.own, func(o string) bool { return safepath.Within(o, target) })
		switch {
		case above && !e.IsDir(): // a place of the sandbox's could not be there
		case above:
			g.plan.add(Step{Do: Dir, Target: target})
			if err := g.dir(target); err != nil {
				return err
			}
		case e.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(filepath.Join(g.tree, target))
			if err != nil {
				return fmt.Errorf("look at the image: %w", err)
			}
			g.plan.add(Step{Do: Symlink, Target: target, Data: to})
		case e.IsDir() || e.Type().IsRegular():
			g.plan.add(Step{Do: Bind, Source: filepath.Join(g.tree, target), Target: target, ReadOnly: true, Mine: true})
			if e.IsDir() {
				g.plan.System = append(g.plan.System, target)
			}
		}
	}
	return nil
}
