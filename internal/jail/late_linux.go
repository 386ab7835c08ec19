package jail

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/terminal"
)

// watchAfter is when the watch begins. A short program does not pay for it.
const watchAfter = 40 * time.Millisecond

// watchLate hides files with secrets that appear while the program runs: a watch on the context
// hears of them, and the first process covers them. It is no wall: see package mask.
func (j *jail) watchLate(f *first) (stop func()) {
	h, err := j.hidden()
	if err != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	told := func(list []mask.Found) {
		var fresh []string
		for _, found := range list {
			path := filepath.Join(h.tree.Root, found.Path)
			if !slices.Contains(j.layout.asked, path) {
				fresh = append(fresh, path)
			}
		}
		if len(fresh) == 0 {
			return
		}
		f.say(word{Hide: fresh})
		select {
		case <-ctx.Done():
		case failed := <-f.hidden:
			if failed != "" {
				j.warn("files that appeared in the context can be read: " + failed)
			}
		}
	}
	timer := time.AfterFunc(watchAfter, func() {
		if err := h.tree.Watch(ctx, mask.Watching{Shared: true, Told: told, Blind: j.warn}); err != nil && ctx.Err() == nil {
			j.warn(fmt.Sprintf("files that appear in %s can be read: %v", j.layout.context, err))
		}
	})
	return func() {
		timer.Stop()
		cancel()
	}
}

func (j *jail) warn(sentence string) { fmt.Fprintf(j.say, "coffer: %s\n", terminal.Escape(sentence)) }
