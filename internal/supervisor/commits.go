package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/hidden"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

const (
	// syncPatience is how long a command waits for commits.
	syncPatience = 5 * time.Second
	// syncEvery is the least time between two looks in the background. The first comes that long
	// after the start, so that a short run pays for none.
	syncEvery = 300 * time.Millisecond
	// syncIdle is the same while no program runs: refs that move then are other sandboxes'.
	syncIdle = 3 * time.Second
	// syncBlind is how often to look where inotify is not to be had.
	syncBlind = 2 * time.Second
	// syncRarely bounds how long to wait after failures.
	syncRarely = 30 * time.Second
)

// commits syncs commits both ways between the sandbox's repositories and the user's: before a
// program starts, in the background when refs move, and before a command returns.
type commits struct {
	opener   wire.Opener // of streams to the guest
	programs func() int  // how many run

	own      *repository   // nil without
	included []*repository // those of 'coffer include'

	life context.Context // of what syncs; nil before start
	end  context.CancelFunc
	work sync.WaitGroup
}

// A repository is one of them.
type repository struct {
	bridge *git.Bridge
	name   string        // of one that is included
	turn   chan struct{} // held by the sync at work

	mu     sync.Mutex
	told   []string // what a command has shown the user
	late   bool     // a command has waited in vain for the sync at work
	failed error    // why the last sync failed, or nil
}

func newRepository(b *git.Bridge, name string) *repository {
	return &repository{bridge: b, name: name, turn: make(chan struct{}, 1)}
}

// openOwn opens the repository of the workspace, if it has one, and returns what is seen of it.
func (c *commits) openOwn(ctx context.Context, sb *sandbox.Sandbox) (view *rootfs.Git, err error) {
	var b *git.Bridge
	switch sb.Workspace.Mode {
	case sandbox.WorkspaceNone:
		return nil, nil
	case sandbox.WorkspaceDirect, sandbox.WorkspaceCOW:
		b, err = git.Lay(ctx, git.Options{ID: sb.ID, Name: sb.Name, Folder: sb.Dir(), Tree: sb.Workspace.Path})
		if errors.Is(err, git.ErrNoRepository) {
			return nil, nil // or one that can only be read inside
		}
	default:
		b, err = git.Open(sb.Dir())
		if errors.Is(err, os.ErrNotExist) {
			err = ui.Error(fmt.Sprintf("sandbox %s was never completed", sb.Name), "remove it with 'coffer rm --force "+sb.Name+"'")
		}
	}
	if err == nil {
		view, err = b.Open(ctx)
	}
	if err == nil {
		c.own = newRepository(b, "")
	}
	return view, err
}

// openIncluded opens the repositories that the sandbox includes. One that cannot be shown, because
// its worktree is gone or because something else is in its place, is left out with a notice.
func (c *commits) openIncluded(sb *sandbox.Sandbox, tell func(string)) (views []rootfs.Include) {
	if sb.Ephemeral || sb.Workspace.Mode == sandbox.WorkspaceNone {
		return nil
	}
	for _, b := range git.Included(sb.Dir()) {
		err := b.CheckPlace(sb.Workspace.Path, sb.Upper())
		var view *rootfs.Git
		if err == nil {
			view, err = b.Open(context.Background())
		}
		if err != nil {
			tell(fmt.Sprintf("the repository %s is not shown: %s", b.Include, err))
			continue
		}
		c.included = append(c.included, newRepository(b, b.Include))
		views = append(views, rootfs.Include{Tree: b.Tree, At: b.At(), Git: view})
	}
	if own, err := git.Open(sb.Dir()); err == nil && len(views) > 0 {
		own.IgnoreIncluded()
	}
	return views
}

// all are the sandbox's own repository and those that it includes.
func (c *commits) all() (list []*repository) {
	if c.own != nil {
		list = append(list, c.own)
	}
	return append(list, c.included...)
}

func (c *commits) includedBridges() (all []*git.Bridge) {
	for _, r := range c.included {
		all = append(all, r.bridge)
	}
	return all
}

// overlook has git inside ignore hidden files. It is a convenience: without it, git says which file
// it cannot read.
func (c *commits) overlook(ctx context.Context, list []hidden.File, tell func(string)) {
	var paths []string
	for _, h := range list {
		paths = append(paths, h.Path)
	}
	if len(paths) == 0 {
		return
	}
	for _, r := range c.all() {
		if err := r.bridge.Overlook(ctx, c.opener, paths); err != nil {
			tell("git inside will stumble over hidden files: " + err.Error())
		}
	}
}

// start syncs in the background until the context ends.
func (c *commits) start(ctx context.Context) {
	c.life, c.end = context.WithCancel(context.Background())
	for _, r := range c.all() {
		c.work.Go(func() { c.follow(ctx, r) })
	}
}

// close waits until nothing syncs any more. The context of start has ended.
func (c *commits) close() {
	if c.end != nil {
		c.end()
	}
	c.work.Wait()
}

// follow syncs when refs move.
func (c *commits) follow(ctx context.Context, r *repository) {
	var refs mask.DirWatch
	defer refs.Close()
	pause := syncEvery
	for sleep(ctx, pause) {
		r.bridge.Watch(&refs) // before the look: nothing is missed in between
		came := c.sync(r)
		_, settled := r.bridge.Settled()
		switch {
		case came.err != nil:
			pause = min(2*pause, syncRarely)
		case !settled:
			pause = min(2*pause, syncBlind)
		case refs.Blind():
			pause = syncBlind
		default:
			refs.Wait(ctx)
			if pause = syncEvery; c.programs() == 0 {
				pause = syncIdle
			}
		}
	}
}

// synced is the result of a sync.
type synced struct {
	notes []string // what the user should know, for as long as it is so
	err   error
}

// sync syncs one repository, one at a time.
func (c *commits) sync(r *repository) (s synced) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-c.life.Done():
		return synced{}
	}
	s.notes, s.err = r.bridge.Sync(c.life, c.opener)
	if c.life.Err() != nil || errors.Is(s.err, wire.ErrGone) {
		s.err = nil // the sandbox has ended
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late, r.failed = false, s.err
	return s
}

// errLate is for a command that does not wait any longer.
var errLate = errors.New("timed out; they are fetched in the background")

// syncWithin syncs what was committed before it was called. What a program left inside may never
// answer, so after patience the caller goes on, and no other one waits for the same sync. What
// failed before is most likely what it is tried again for, and says more than the timeout.
func (c *commits) syncWithin(r *repository, patience time.Duration) synced {
	if c.life == nil {
		return synced{}
	}
	if notes, ok := r.bridge.Settled(); ok {
		return synced{notes: notes}
	}
	r.mu.Lock()
	late, failed := r.late, r.failed
	r.mu.Unlock()
	if late {
		return synced{err: cmp.Or(failed, errLate)}
	}
	done := make(chan synced, 1)
	c.work.Go(func() { done <- c.sync(r) })
	select {
	case s := <-done:
		return s
	case <-time.After(patience):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = true
	return synced{err: cmp.Or(r.failed, errLate)}
}

// known is what was known about a repository before a program started.
type known struct {
	words []string
	refs  string
}

// before syncs for a program that is about to start. It returns what to tell the user when it
// has ended, and what is known about each repository.
func (c *commits) before() (news []string, about map[*repository]known) {
	about = map[*repository]known{}
	for _, r := range c.all() {
		words := r.words(c.syncWithin(r, syncPatience))
		_ = r.bridge.Refresh(context.Background()) // what cannot be read now stays as it was
		news = append(news, r.fresh(words)...)
		about[r] = known{words, r.bridge.Glance()}
	}
	return news, about
}

// after syncs what a program committed, and returns what is new since it started. A failure is
// repeated to a program that has moved refs.
func (c *commits) after(about map[*repository]known) (news []string) {
	for _, r := range c.all() {
		came, was := c.syncWithin(r, syncPatience), about[r]
		if came.err != nil && r.bridge.Glance() != was.refs {
			was.words = nil
		}
		news = append(news, r.news(r.words(came), was.words)...)
	}
	return news
}

// syncSoon syncs before the sandbox is ended, without waiting long: what does not come now comes
// after the next start.
func (c *commits) syncSoon() {
	for _, r := range c.all() {
		if c.life != nil && c.life.Err() != nil {
			return
		}
		if news := r.fresh(r.words(c.syncWithin(r, syncPatience))); len(news) > 0 {
			fmt.Fprintln(os.Stderr, strings.Join(news, "\n"))
		}
	}
}

// forget takes back what a throw-away has in the user's repository.
func (c *commits) forget() {
	if c.own != nil && c.life != nil && c.own.bridge.Begun() {
		_ = c.own.bridge.Forget(context.Background(), false)
	}
}

// answer serves OpSync: of all repositories, or of one commit, for a hook.
func (c *commits) answer(only *wire.Sync) (*wire.Synced, error) {
	if only != nil {
		for _, r := range c.all() {
			if r.bridge.Folder() == only.Repository {
				return &wire.Synced{}, r.bridge.Fetch(context.Background(), c.opener, only.Commit)
			}
		}
		return nil, errors.New("the sandbox has no such repository")
	}
	var answer wire.Synced
	var failed error
	for _, r := range c.all() {
		came := c.syncWithin(r, time.Minute)
		answer.Notes = append(answer.Notes, r.lasting(came.notes)...)
		failed = cmp.Or(failed, came.err)
	}
	return &answer, failed
}

// FetchCommit has the supervisor at the end of a line fetch one commit, of the repository whose
// bridge is in a folder.
func FetchCommit(l *wire.Line, folder, commit string) error {
	_, err := l.Ask(wire.Request{Op: wire.OpSync, Sync: &wire.Sync{Commit: commit, Repository: folder}}, time.Hour)
	return err
}

// Sync has the supervisor at the end of a line sync, and returns notes for the user.
func Sync(l *wire.Line) (notes []string, err error) {
	e, err := l.Ask(wire.Request{Op: wire.OpSync}, time.Hour)
	if e.Synced != nil {
		notes = e.Synced.Notes
	}
	return notes, err
}

// words is all of a result for the user.
func (r *repository) words(s synced) (words []string) {
	words = slices.Clone(s.notes)
	if s.err != nil {
		word := "commits were not brought over: " + s.err.Error()
		if h := ui.HintOf(s.err); h != "" {
			word += "; " + h
		}
		words = append(words, word)
	}
	if r.name != "" {
		for i := range words {
			words[i] = r.name + ": " + words[i]
		}
	}
	return words
}

// fresh is what of words has not been told. All of them are told then.
func (r *repository) fresh(words []string) []string {
	r.mu.Lock()
	told := r.told
	r.mu.Unlock()
	return r.news(words, told)
}

// news is what of words is not among the old ones. All of them are told then.
func (r *repository) news(words, old []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = words
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(old, w) })
}

// lasting is what of notes to tell somebody who asks: states that last, and news that nobody has
// been told.
func (r *repository) lasting(notes []string) (words []string) {
	all := r.words(synced{notes: notes})
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range all {
		once := r.bridge.Once(notes[i])
		if once && slices.Contains(r.told, w) {
			continue
		}
		words = append(words, w)
		if once {
			r.told = append(slices.Clip(r.told), w)
		}
	}
	return words
}
