package git

import (
	"context"
	"os"
	"syscall"

	"github.com/cofferhq/coffer/internal/wire"
)

// After each commit git starts another one, which finds almost always that there is nothing to tidy
// up. An agent commits often, and waits for it. So git inside leaves that, unless the user has said
// otherwise, and is told when nothing happens and there may be something.

// Git's own bounds: it packs loose objects from 6700 on, which it takes to be there if one of
// 256 directories has its share of them, and packs from 50 on.
const (
	sampled     = "objects/17"
	manySampled = 6700/256 + 1
	manyPacks   = 2 * 50 // with an index each
)

// Rest waits for a git that TidyInside started.
func (b *Bridge) Rest() { b.parting.Wait() }

// TidyInside has git inside tidy up, if there is something to. Nobody waits for that but Rest. It
// minds gc.auto. In the background of its own it would be one of those that end with who started it.
func (b *Bridge) TidyInside(ctx context.Context, o wire.Opener) {
	if b.memory != nil || b.entries(sampled, manySampled) < manySampled && b.entries("objects/pack", manyPacks) < manyPacks {
		return
	}
	if b.tidying.CompareAndSwap(false, true) {
		b.parting.Go(func() {
			defer b.tidying.Store(false)
			_, _, _ = b.ask(ctx, o, "-c", "gc.autoDetach=false", "gc", "--auto", "--quiet") // another time, then
		})
	}
}

// entries counts what is in a directory of the private one, up to so many.
func (b *Bridge) entries(name string, most int) int {
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return 0
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	names, _ := f.Readdirnames(most)
	return len(names)
}
