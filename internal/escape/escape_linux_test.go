package escape

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// TestEscape makes every attempt of the corpus, for every user there is.
func TestEscape(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		r := &report{who: fmt.Sprintf("started by uid %d", b.UID)}
		here, there := newWorld(t, b, false), newWorld(t, b, true)
		list := trials(table())
		outside := there.controls(list)
		inside := here.inside(list, false)
		for id, o := range here.inside(list, true) {
			inside[id] = o
		}
		r.settle(list, outside, inside)
		st := &stage{t: t, r: r, bed: b, here: here, there: there, probe: here.home + "/.local/bin/probe"}
		for i, scene := range scenes {
			t0 := time.Now()
			scene(st)
			if d := time.Since(t0); d > 500*time.Millisecond {
				t.Log("TIME", i, runtime.FuncForPC(reflect.ValueOf(scene).Pointer()).Name(), d)
			}
		}
		r.show(t)
	})
}
