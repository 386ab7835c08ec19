package sandbox

import (
	"errors"
	"fmt"
	"github.com/cofferhq/coffer/internal/safepath"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Every state a crash can leave, made by hand: what the sweep makes of it.
func TestSweepStates(t *testing.T) {
	tests := map[string]struct {
		rec   Record
		crash func(s *Store, sb *Sandbox) error
		stays bool
	}{
		"healthy": {stay("web"), nil, true},
		"draft without anything": {throwAway(), func(s *Store, sb *Sandbox) error {
			return errors.Join(safepath.RemoveTree(sb.dir), os.Mkdir(s.dir+"/.new-"+sb.ID, 0o700))
		}, false},
		"draft without record": {stay("web"), func(s *Store, sb *Sandbox) error {
			return errors.Join(os.Remove(sb.dir+"/sandbox.json"), os.Rename(sb.dir, s.dir+"/.new-"+sb.ID))
		}, false},
		"draft with half a record": {stay("web"), func(s *Store, sb *Sandbox) error {
			return errors.Join(os.Truncate(sb.dir+"/sandbox.json", 9), os.Rename(sb.dir, s.dir+"/.new-"+sb.ID))
		}, false},
		"finished draft": {stay("web"), func(s *Store, sb *Sandbox) error {
			return os.Rename(sb.dir, s.dir+"/.new-"+sb.ID)
		}, false},
		"moved out of the way": {stay("web"), func(s *Store, sb *Sandbox) error {
			return os.Rename(sb.dir, s.dir+"/.gone-"+sb.ID+"-abcdefgh")
		}, false},
		"half deleted": {stay("web"), func(s *Store, sb *Sandbox) error {
			return errors.Join(os.Remove(sb.dir+"/lock"), os.Remove(sb.dir+"/sandbox.json"), os.Rename(sb.dir, s.dir+"/.gone-"+sb.ID+"-abcdefgh"))
		}, false},
		"deleted but for the folder": {stay("web"), func(s *Store, sb *Sandbox) error {
			return errors.Join(safepath.RemoveTree(sb.dir), os.Mkdir(s.dir+"/.gone-"+sb.ID+"-abcdefgh", 0))
		}, false},
		"a file called gone": {stay("web"), func(s *Store, sb *Sandbox) error {
			return errors.Join(safepath.RemoveTree(sb.dir), os.WriteFile(s.dir+"/.gone-x", nil, 0))
		}, false},
		"throw-away":                {throwAway(), nil, false},
		"throw-away without record": {throwAway(), func(_ *Store, sb *Sandbox) error { return os.Remove(sb.dir + "/sandbox.json") }, false},
		"throw-away, emptied":       {throwAway(), func(_ *Store, sb *Sandbox) error { return os.Truncate(sb.dir+"/sandbox.json", 0) }, false},
		"throw-away without lock":   {throwAway(), func(_ *Store, sb *Sandbox) error { return os.Remove(sb.dir + "/lock") }, false},
		"throw-away, kept":          {throwAway(), func(_ *Store, sb *Sandbox) error { sb.Ephemeral = false; return sb.Save() }, true},
		"half saved":                {stay("web"), func(_ *Store, sb *Sandbox) error { return os.WriteFile(sb.dir+"/sandbox.json.new", []byte("{"), 0o600) }, true},
		"stale socket":              {stay("web"), func(_ *Store, sb *Sandbox) error { return os.WriteFile(sb.dir+"/control.sock", nil, 0o600) }, true},
		"without lock":              {stay("web"), func(_ *Store, sb *Sandbox) error { return os.Remove(sb.dir + "/lock") }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			other := create(t, s, stay("other"))
			sb := create(t, s, test.rec)
			if test.crash != nil {
				if err := test.crash(s, sb); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Sweep(nil); err != nil {
				t.Error(err)
			}
			if !test.stays {
				only(t, s, other.ID)
				return
			}
			only(t, s, other.ID, sb.ID)
			if hasAny(sb.dir, socketName, debtName) {
				t.Error("the socket is still there")
			}
			lock, err := sb.Lock()
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Release()
			if err := sb.Save(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSweepLeavesTheLivingAlone(t *testing.T) {
	s := newStore(t)
	a, lockA, err := s.Create(throwAway())
	if err != nil {
		t.Fatal(err)
	}
	defer lockA.Release()
	b, lockB, err := s.Create(stay("web"))
	if err != nil {
		t.Fatal(err)
	}
	defer lockB.Release()
	for _, sb := range []*Sandbox{a, b} {
		if err := os.WriteFile(filepath.Join(sb.Dir(), socketName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sweep(func(tree string) error { return fmt.Errorf("wants to delete %s", tree) }); err != nil {
		t.Error(err)
	}
	// Started between the sweep's first look and its turn with the store lock.
	for _, sb := range []*Sandbox{a, b} {
		if d, err := s.condemn(sb.ID); d != nil || err != nil {
			t.Errorf("condemned a running sandbox: %v, %v", d, err)
		}
	}
	if !hasAny(a.Dir(), socketName, debtName) || !hasAny(b.Dir(), socketName, debtName) {
		t.Error("took the socket of a running sandbox")
	}
	only(t, s, a.ID, b.ID)
}

// A sweep does not join a deletion under way, and repeats one that failed.
func TestSweepAndPurge(t *testing.T) {
	s := newStore(t)
	sb := create(t, s, stay("web"))
	calls := 0
	err := sb.Remove(func(tree string) error {
		if !strings.HasPrefix(filepath.Base(tree), gonePrefix+sb.ID) {
			t.Errorf("asked to delete %s", tree)
		}
		if err := s.Sweep(func(string) error { calls++; return nil }); err != nil {
			t.Error(err)
		}
		return errors.New("no luck")
	})
	if err == nil || !strings.Contains(err.Error(), "no luck") || calls != 0 {
		t.Errorf("got %v, %d deletions in between", err, calls)
	}
	if _, err := s.Get(sb.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("still there: %v", err)
	}
	if err := s.Sweep(func(string) error { return errors.New("again no luck") }); err == nil || !strings.Contains(err.Error(), gonePrefix+sb.ID) {
		t.Errorf("got %v", err)
	}
	if err := s.Sweep(nil); err != nil {
		t.Error(err)
	}
	only(t, s)
}

func TestKillAnywhere(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	s := newStore(t)
	keep := create(t, s, stay("keep"))
	for range rounds {
		p := start(t, nil, "churn", s.Dir())
		p.line(t)
		for range rand.IntN(3) {
			p.line(t)
		}
		// A line comes amid a round; some empty work moves the blow along it.
		for range rand.IntN(200) {
			if _, err := os.Lstat(s.Dir()); err != nil {
				t.Fatal(err)
			}
		}
		p.kill()

		all, errs := s.List()
		if len(errs) > 0 {
			t.Fatalf("half a sandbox under its own name: %v", errs)
		}
		if err := s.Sweep(nil); err != nil {
			t.Fatal(err)
		}
		ids := []string{keep.ID}
		for _, sb := range all {
			if sb.ID != keep.ID && !sb.Ephemeral {
				ids = append(ids, sb.ID)
			}
		}
		only(t, s, ids...)
		for _, id := range ids[1:] {
			sb, err := s.Get(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := sb.Remove(nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Many at once, some of them other processes, some sweeping all the time.
func TestHammer(t *testing.T) {
	s := newStore(t)
	rounds := 60
	var work, sweepers sync.WaitGroup
	for range 2 {
		p := start(t, nil, "churn", s.Dir())
		sweepers.Go(func() {
			for range rounds {
				if _, err := p.out.ReadString('\n'); err != nil {
					t.Errorf("the other process gave up: %v", err)
					return
				}
			}
			p.kill()
		})
	}
	stop := make(chan struct{})
	sweepers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Sweep(nil); err != nil {
				t.Errorf("sweep: %v", err)
			}
			if _, errs := s.List(); len(errs) > 0 {
				t.Errorf("list: %v", errs)
			}
		}
	})
	for range 6 {
		work.Go(func() {
			for i := range rounds {
				rec := throwAway()
				rec.Ephemeral = i%3 > 0
				sb, lock, err := s.Create(rec)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.MkdirAll(filepath.Join(sb.Home(), "a"), 0o700); err != nil {
					t.Errorf("swept away: %v", err)
				}
				switch {
				case i%3 == 1: // left to the sweep
					lock.Release()
					continue
				case i%3 == 0: // stopped, and started again by whoever is first
					lock.Release()
					if lock, err = sb.Lock(); err != nil {
						t.Error(err)
						continue
					}
				}
				if err := lock.Remove(nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	close(stop)
	sweepers.Wait()
	all, errs := s.List()
	if len(errs) > 0 {
		t.Error(errs)
	}
	for _, sb := range all { // of the processes that were killed
		if !sb.Ephemeral {
			if err := sb.Remove(nil); err != nil {
				t.Error(err)
			}
		}
	}
	if err := s.Sweep(nil); err != nil {
		t.Error(err)
	}
	only(t, s)
}

func BenchmarkCreateRemove(b *testing.B) {
	for _, others := range []int{0, 50} {
		for _, ephemeral := range []bool{true, false} {
			b.Run(fmt.Sprintf("ephemeral=%v/others=%d", ephemeral, others), func(b *testing.B) {
				s := crowd(b, others)
				rec := throwAway()
				rec.Ephemeral = ephemeral
				for b.Loop() {
					_, lock, err := s.Create(rec)
					if err != nil {
						b.Fatal(err)
					}
					if err := lock.Remove(nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkSweep(b *testing.B) {
	for _, others := range []int{0, 50} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			s := crowd(b, others)
			for b.Loop() {
				if err := s.Sweep(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func crowd(b *testing.B, n int) *Store {
	s := newStore(b)
	if err := s.make(); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		create(b, s, stay(fmt.Sprintf("other-%d", i)))
	}
	return s
}
