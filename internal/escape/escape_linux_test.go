package escape

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cofferhq/coffer/internal/fakenet"
	"github.com/cofferhq/coffer/internal/testbed"
)

func TestMain(m *testing.M) { fakenet.Main(func() { testbed.Main(m) }) }

// TestEscape makes every attempt of the corpus, for every user there is.
func TestEscape(t *testing.T) {
	var mu sync.Mutex
	total := &report{}
	t.Cleanup(func() { t.Log("all users: " + total.counts()) })
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		r := &report{who: fmt.Sprintf("started by uid %d", b.UID)}
		here, there := newWorld(t, b, false), newWorld(t, b, true)
		coffer := here.state(b.Coffer)
		list := trials(table())
		outside := there.controls(list)
		inside := here.inside(list, false)
		for id, o := range here.inside(list, true) {
			inside[id] = o
		}
		r.settle(list, outside, inside)
		s := &stage{t: t, r: r, bed: b, here: here, there: there, probe: here.home + "/.local/bin/probe"}
		for _, scene := range scenes {
			scene(s)
		}
		r.judge("x1.same", "all of this together: change coffer's own program", coffer != "", "-", here.state(b.Coffer) == coffer, "unchanged")
		r.show(t)
		mu.Lock()
		defer mu.Unlock()
		total.add(r.rows...)
	})
}

// TestEscapeGit makes the attempts by way of git, and of what coffer does with git.
func TestEscapeGit(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		w := &world{t: t, bed: b, dir: b.Dir, home: b.Home, work: b.Work}
		s := &stage{t: t, r: &report{who: fmt.Sprintf("started by uid %d", b.UID)}, bed: b, here: w, there: w, probe: b.Home + "/.local/bin/probe"}
		copyTo(t, program(t), s.probe, 0o755)
		w.own(b.Home + "/.local")
		for _, scene := range gitScenes {
			scene(s)
		}
		s.r.show(t)
	})
}
