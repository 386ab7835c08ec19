package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// git brings commits over, both ways: before a program starts, while it runs, and when it
// has ended, before its command returns. One goroutine does it. Whoever wants it done asks
// that one, and does not wait for ever: what a program left inside may never answer.
type git struct {
	bridge *gitbridge.Bridge // nil without
	stop   context.CancelFunc
	ended  chan struct{}
	asks   chan chan<- brought

	mu   sync.Mutex
	told []string  // what some command has said to the user already
	busy time.Time // since when it is at work, or zero
}

// syncPatience is how long a command waits for commits to come over.
const syncPatience = 5 * time.Second

// openGit opens the sandbox's bridge, if its workspace is or has a repository, and says
// what is seen of it.
func (s *Supervisor) openGit() (*rootfs.Git, error) {
	switch s.Sandbox.Workspace.Mode {
	case sandbox.WorkspaceDirect, sandbox.WorkspaceCOW:
		return s.layGit()
	case sandbox.WorkspaceNone:
		return nil, nil
	}
	b, err := gitbridge.Open(s.Sandbox.Dir())
	if errors.Is(err, os.ErrNotExist) {
		err = hint.New(fmt.Sprintf("sandbox %s was never completed", s.Sandbox.Name), "remove it with 'coffer rm --force "+s.Sandbox.ID+"'")
	}
	if err != nil {
		return nil, err
	}
	b.Unlock()
	view, err := b.View()
	if err == nil {
		err = b.RenewHooks()
	}
	if err == nil {
		err = b.Refresh(context.Background())
	}
	if err == nil {
		s.git.bridge = b
	}
	return view, err
}

// layGit makes the git directory that lies over that of the workspace.
func (s *Supervisor) layGit() (*rootfs.Git, error) {
	sb := s.Sandbox
	b, err := gitbridge.Lay(context.Background(), gitbridge.Options{ID: sb.ID, Name: sb.Name, Folder: sb.Dir(), Tree: sb.Workspace.Path}, !sb.Ephemeral)
	if errors.Is(err, gitbridge.ErrNoRepository) {
		return nil, nil // or one that can only be read inside
	}
	if err != nil {
		return nil, err
	}
	if !sb.Ephemeral {
		b.Unlock()
	}
	s.git.bridge = b
	return b.View()
}

// watchGit starts to bring commits over.
func (s *Supervisor) watchGit() {
	if s.git.bridge == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.git.stop, s.git.ended, s.git.asks = stop, make(chan struct{}), make(chan chan<- brought)
	go func() {
		defer close(s.git.ended)
		s.follow(ctx)
	}()
}

// brought is what came of bringing commits over.
type brought struct {
	notes []string // what the user should know, for as long as it is so
	err   error
}

// errLate is for who does not wait any longer.
var errLate = errors.New("they are still on their way, and will be there later")

// words is all of it for the user.
func (b brought) words() []string {
	if b.err == nil {
		return b.notes
	}
	word := "commits were not brought over: " + b.err.Error()
	if h := hint.Of(b.err); h != "" {
		word += "; " + h
	}
	return append(slices.Clone(b.notes), word)
}

// sync brings commits over.
func (s *Supervisor) sync(ctx context.Context) (b brought) {
	s.git.working(true)
	defer s.git.working(false)
	b.notes, b.err = s.git.bridge.Sync(ctx, s)
	if ctx.Err() != nil || errors.Is(b.err, wire.ErrGone) {
		b.err = nil // nobody is there any more
	}
	return b
}

func (g *git) working(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy = (time.Time{}); yes {
		g.busy = time.Now()
	}
}

// late says whether it has been at work for longer than anybody waits.
func (g *git) late() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.busy.IsZero() && time.Since(g.busy) > syncPatience
}

// bringOver has commits brought over that were made before it was called.
func (s *Supervisor) bringOver(patience time.Duration) brought {
	g := &s.git
	if g.asks == nil {
		return brought{}
	}
	if notes, ok := g.bridge.Settled(); ok {
		return brought{notes: notes}
	}
	if g.late() {
		return brought{err: errLate}
	}
	done := make(chan brought, 1)
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case g.asks <- done:
	case <-g.ended:
		return brought{}
	case <-over.C:
		return brought{err: errLate}
	}
	select {
	case b := <-done:
		return b
	case <-g.ended:
		return brought{}
	case <-over.C:
		return brought{err: errLate}
	}
}

// news is what of these notes nobody has heard, or who heard only the old ones has not.
func (g *git) news(notes, old []string) (news []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range notes {
		if old == nil && !slices.Contains(g.told, n) || old != nil && !slices.Contains(old, n) {
			news = append(news, n)
		}
	}
	g.told = notes
	return news
}

// before brings over what was committed outside, for a program that is about to start.
// It returns what to say when it has ended, and what is known.
func (s *Supervisor) before() (news, known []string) {
	known = append([]string{}, s.bringOver(syncPatience).words()...)
	return s.git.news(known, nil), known
}

// after brings over what a program committed, and returns what is new since it started.
func (s *Supervisor) after(known []string) []string {
	return s.git.news(s.bringOver(syncPatience).words(), known)
}

// Bridged runs a program between the two. It returns what to tell the user.
func (s *Supervisor) Bridged(program func()) []string {
	if s.git.bridge == nil {
		program()
		return nil
	}
	news, known := s.before()
	program()
	return append(news, s.after(known)...)
}

// syncSoon brings over what there is, before the sandbox is ended, if it still lives. Who
// stops it does not wait long; what does not come over now comes after the next start.
func (s *Supervisor) syncSoon() {
	if s.git.bridge == nil {
		return
	}
	select {
	case <-s.instance.Done():
	default:
		if notes := s.git.news(s.bringOver(4*time.Second).words(), nil); len(notes) > 0 {
			fmt.Fprintln(os.Stderr, strings.Join(notes, "\n"))
		}
	}
}

// lastSync ends the bringing over, after once more.
func (s *Supervisor) lastSync() {
	if s.git.stop == nil {
		return
	}
	s.syncSoon()
	s.git.stop()
	<-s.git.ended
	s.restCheckpoints()
}

// ForgetGit takes back what a throw-away has in the user's repository, if it ever had
// something there.
func (s *Supervisor) ForgetGit() {
	b := s.git.bridge
	if b == nil || s.git.stop == nil {
		return
	}
	s.git.stop()
	<-s.git.ended
	if b.Begun() {
		_ = b.Forget(context.Background(), false)
	}
}

// answerSync serves OpSync.
func (s *Supervisor) answerSync(c net.Conn, only *wire.Sync) {
	var b brought
	if only != nil {
		b.err = s.fetchCommit(only)
	} else {
		b = s.bringOver(time.Minute)
	}
	answer := wire.Synced{Notes: b.notes}
	if b.err != nil {
		answer.Error, answer.Hint = b.err.Error(), hint.Of(b.err)
	}
	_ = wire.WriteMessage(c, wire.Event{Synced: &answer})
}

// fetchCommit brings over one commit, for a hook.
func (s *Supervisor) fetchCommit(only *wire.Sync) error {
	b := s.git.bridge
	if b == nil || b.Folder() != only.Repository {
		return errors.New("the sandbox has no such repository")
	}
	return b.Fetch(context.Background(), s, only.Commit)
}

// FetchCommit has the supervisor at the end of a line bring over one commit, of the
// repository whose bridge is in a folder.
func FetchCommit(l wire.Opener, folder, commit string) error {
	_, err := askSync(l, &wire.Sync{Commit: commit, Repository: folder})
	return err
}

// Sync has the supervisor at the end of a line bring commits over, and says what the user
// should know.
func Sync(l wire.Opener) (notes []string, err error) { return askSync(l, nil) }

func askSync(l wire.Opener, only *wire.Sync) (notes []string, err error) {
	c, err := l.Open()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := wire.WriteMessage(c, wire.Request{Op: wire.OpSync, Sync: only}); err != nil {
		return nil, err
	}
	var e wire.Event
	if err := wire.ReadMessage(c, wire.MaxReply, &e); err != nil {
		return nil, err
	}
	if e.Synced == nil {
		return nil, errors.New("the supervisor did not say whether commits were brought over")
	}
	if e.Synced.Error != "" {
		err = errors.New(e.Synced.Error)
		if e.Synced.Hint != "" {
			err = hint.Wrap(err, "%s", e.Synced.Hint)
		}
	}
	return e.Synced.Notes, err
}
