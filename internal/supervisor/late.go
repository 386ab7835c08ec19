package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// A repository that is included while programs run is shown to them, and one that is taken out
// goes from their sight. What counts is what is on the disk: who is killed after that was
// changed, and before it was shown, is followed by the next program that starts.

// patienceShow bounds how long the guest may take for it. A variable for tests.
var patienceShow = time.Minute

// showIncluded shows a repository to the programs that run. Whoever asks holds the lock of the
// included repositories.
func (s *Supervisor) showIncluded(name string) error {
	s.included.change.Lock()
	defer s.included.change.Unlock()
	s.forgetGone()
	if s.included.find(name) != nil {
		return nil
	}
	if g := s.included.away[name]; g != nil {
		return s.bringBack(g)
	}
	lender, ok := s.instance.(engine.Lender)
	if !ok || !s.includes() {
		return errors.New("this kind of sandbox cannot be shown more while it runs")
	}
	b, err := git.OpenIncluded(s.Sandbox.Dir(), name)
	if err != nil {
		return err
	}
	view, err := s.openOne(b)
	if err != nil {
		return err
	}
	one, err := openIncludedMasks(s.Sandbox, b)
	if err != nil {
		return err
	}
	s.masks.add(one)
	g := &commits{bridge: b, name: name}
	hidden, err := s.lateMasks(one)
	if err == nil {
		s.ignoreIncluded()
		g.view = rootfs.NewLate(s.Sandbox.Workspace.Path, view, hidden, s.shims(g))
		s.included.batch++
		err = lender.Lend(s.included.batch, g.view.Lent())
	}
	if err == nil {
		err = s.reveal(g)
	}
	if err != nil {
		s.masks.dropTree(b.Tree)
		return err
	}
	s.watchTree(one)
	s.watchOne(g)
	s.included.add(g)
	s.keeper.renew()
	return nil
}

// reveal has the guest put a worktree together, and show it when git there minds nothing that
// is hidden.
func (s *Supervisor) reveal(g *commits) error {
	if err := s.askShow(guest.Show{Late: g.view, Batch: s.included.batch}); err != nil {
		return err
	}
	s.overlook(context.Background(), g)
	return s.unveil(g)
}

// unveil has the guest show what is put together. One that says that it did not has not. One
// that says nothing may have, or may yet, and nobody watches the tree: then the sandbox ends.
func (s *Supervisor) unveil(g *commits) error {
	err := s.askShow(guest.Show{Late: g.view, Reveal: true})
	if said := new(guestError); err != nil && !errors.As(err, said) {
		err = fmt.Errorf("repository %s may be seen without what hides files in it: %w", g.name, err)
		s.because(err.Error())
		s.instance.Kill()
	} else if err != nil {
		_ = s.askShow(guest.Show{Late: g.view, Gone: true})
	}
	return err
}

// lateMasks finds what is to be hidden in a worktree.
func (s *Supervisor) lateMasks(one *shown) (hidden []string, err error) {
	r, err := one.tree.Scan(s.masks.life)
	if err != nil {
		return nil, MaskProblem(err)
	}
	for _, f := range r.Hidden {
		s.note(one.tree.Root, f)
		hidden = append(hidden, f.Path)
	}
	return hidden, nil
}

// overlook has git inside not mind what is hidden in a repository.
func (s *Supervisor) overlook(ctx context.Context, g *commits) {
	var paths []string
	for _, h := range s.hidden() {
		if safepath.Within(h.Path, g.bridge.Tree) {
			paths = append(paths, h.Path)
		}
	}
	if len(paths) > 0 {
		if err := g.bridge.Overlook(ctx, s, paths); err != nil {
			s.notices.tell("git inside will stumble over hidden files: " + err.Error())
		}
	}
}

// hideIncluded takes a repository from the sight of the programs that run, after what they
// committed has come over. With force it goes although that did not.
func (s *Supervisor) hideIncluded(name string, force bool) error {
	s.included.change.Lock()
	defer s.included.change.Unlock()
	s.forgetGone()
	g := s.included.find(name)
	if g == nil {
		return nil
	}
	if came := g.bringOver(time.Minute); came.err != nil && !force {
		return fmt.Errorf("commits were not brought over: %w", came.err)
	}
	if err := s.askShow(guest.Show{Late: g.view, Away: true}); err != nil {
		// Programs may still see it, where nothing that appears in it would be hidden.
		err = fmt.Errorf("repository %s could not be taken away: %w", name, err)
		s.because(err.Error())
		s.instance.Kill()
		return err
	}
	s.included.drop(g)
	s.keeper.renew()
	g.stop()
	<-g.ended
	if s.included.away == nil {
		s.included.away = map[string]*commits{}
	}
	s.included.away[name] = g
	return nil
}

// bringBack shows a repository again that was to be taken out and was not. Programs that held a
// directory of it see the same mount again, in which all was hidden meanwhile.
func (s *Supervisor) bringBack(old *commits) error {
	if err := s.askShow(guest.Show{Late: old.view, Back: true}); err != nil {
		return err
	}
	g := &commits{bridge: old.bridge, name: old.name, view: old.view}
	delete(s.included.away, g.name)
	s.watchOne(g)
	s.included.add(g)
	s.keeper.renew()
	return nil
}

// forgetGone lets go of repositories that were taken away and whose worktrees are gone. Until
// then what appears in them is hidden: a program may stand there.
func (s *Supervisor) forgetGone() {
	for name, g := range s.included.away {
		if !s.masks.stands(g.bridge.Tree) {
			_ = s.askShow(guest.Show{Late: g.view, Gone: true})
			s.masks.dropTree(g.bridge.Tree)
			delete(s.included.away, name)
		}
	}
}

// A guestError is the guest's own answer that something was not done.
type guestError string

func (e guestError) Error() string { return string(e) }

// askShow has the guest do it.
func (s *Supervisor) askShow(what guest.Show) error {
	asked, err := json.Marshal(what)
	if err != nil {
		return err
	}
	e, err := s.askGuest(wire.Request{Op: wire.OpShow, Show: asked}, patienceShow)
	if err != nil {
		return err
	}
	switch {
	case e.Done == nil:
		return errors.New("the guest did not say whether it was done")
	case e.Done.Error != "":
		return guestError(e.Done.Error)
	}
	return nil
}

// meetIncluded shows what was included and could not be shown by who was killed then. It is
// called before a program starts, and most sandboxes have no such directory.
func (s *Supervisor) meetIncluded() {
	if !s.includes() {
		return
	}
	for _, name := range git.IncludedNames(s.Sandbox.Dir()) {
		s.included.mu.Lock()
		refused := s.included.refused[name]
		s.included.mu.Unlock()
		if refused || s.included.find(name) != nil {
			continue
		}
		unlock, ok := git.TryLockIncluded(s.Sandbox.Dir())
		if !ok {
			return // somebody is at it, and will say what
		}
		err := s.showIncluded(name)
		unlock()
		if err != nil {
			s.included.refuse(name)
		}
	}
}

// showRequest is what a command asks.
type showRequest struct {
	Name  string `json:"name"`
	Away  bool   `json:"away,omitempty"`
	Force bool   `json:"force,omitempty"`
}

// answerShow serves OpShow.
func (s *Supervisor) answerShow(c net.Conn, asked json.RawMessage) {
	var r showRequest
	err := json.Unmarshal(asked, &r)
	switch {
	case err != nil:
	case r.Name == "" || filepath.Base(r.Name) != r.Name:
		err = errors.New("no repository was named")
	case r.Away:
		err = s.hideIncluded(r.Name, r.Force)
	default:
		err = s.showIncluded(r.Name)
	}
	var done wire.Done
	if err != nil {
		done.Error, done.Hint = err.Error(), ui.HintOf(err)
	}
	_ = wire.WriteMessage(c, wire.Event{Done: &done})
}

// ShowIncluded has the supervisor at the end of a line show a repository that was included to
// the programs that run.
func ShowIncluded(l *Line, name string) error { return askIncluded(l, showRequest{Name: name}) }

// HideIncluded has it taken from their sight. With force, also if commits do not come over.
func HideIncluded(l *Line, name string, force bool) error {
	return askIncluded(l, showRequest{Name: name, Away: true, Force: force})
}

func askIncluded(l *Line, r showRequest) error {
	asked, err := json.Marshal(r)
	if err != nil {
		return err
	}
	e, err := l.Ask(wire.Request{Op: wire.OpShow, Show: asked}, 3*patienceShow)
	switch {
	case err != nil:
		return err
	case e.Done == nil:
		return errors.New("the supervisor did not say whether it was done")
	case e.Done.Error == "":
		return nil
	}
	err = errors.New(e.Done.Error)
	if e.Done.Hint != "" {
		err = ui.Hint(err, "%s", e.Done.Hint)
	}
	return err
}
