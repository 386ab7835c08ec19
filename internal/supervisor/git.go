package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// git is the bridge of a worktree sandbox. Commits are brought over while programs run,
// and surely when a command that ran one asks for it, before it returns.
type git struct {
	bridge *gitbridge.Bridge // nil without
	stop   context.CancelFunc
	ended  chan struct{}

	mu   sync.Mutex // one sync at a time
	last string     // what was last said about it
}

// syncEvery is how often the refs are looked at while programs run. It costs some 30 µs.
const syncEvery = 300 * time.Millisecond

// openGit opens the sandbox's bridge, if its workspace is a worktree, and says what is
// seen of it.
func (s *Supervisor) openGit() (*rootfs.Git, error) {
	if s.Sandbox.Workspace.Mode != sandbox.WorkspaceTree {
		return nil, nil
	}
	b, err := gitbridge.Open(s.Sandbox.Dir())
	if errors.Is(err, os.ErrNotExist) {
		err = hint.New(fmt.Sprintf("sandbox %s was never completed", s.Sandbox.Name), "remove it with 'coffer rm --force "+s.Sandbox.ID+"'")
	}
	if err != nil {
		return nil, err
	}
	view, err := b.View()
	if err == nil {
		err = b.Refresh(context.Background())
	}
	if err == nil {
		s.git.bridge = b
	}
	return view, err
}

// watchGit starts to look at the refs.
func (s *Supervisor) watchGit() {
	if s.git.bridge == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.git.stop, s.git.ended = stop, make(chan struct{})
	go func() {
		defer close(s.git.ended)
		tick := time.NewTicker(syncEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.session.CloseChan():
				return
			case <-tick.C:
			}
			s.mu.Lock()
			busy := s.execs > 0
			s.mu.Unlock()
			if busy {
				s.report(s.sync(ctx))
			}
		}
	}()
}

// sync brings commits over.
func (s *Supervisor) sync(ctx context.Context) ([]string, error) {
	s.git.mu.Lock()
	defer s.git.mu.Unlock()
	return s.git.bridge.Sync(ctx, s)
}

// report tells the user what a sync in the background had to say, once.
func (s *Supervisor) report(notes []string, err error) {
	words := fmt.Sprint(notes, err)
	s.git.mu.Lock()
	known := words == s.git.last
	s.git.last = words
	s.git.mu.Unlock()
	if known {
		return
	}
	for _, n := range notes {
		fmt.Fprintln(os.Stderr, n)
	}
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, wire.ErrGone) {
		fmt.Fprintln(os.Stderr, "bring commits over:", err)
	}
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
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		s.report(s.sync(ctx))
	}
}

// lastSync ends the looking, after one more look.
func (s *Supervisor) lastSync() {
	if s.git.stop == nil {
		return
	}
	s.syncSoon()
	s.git.stop()
	<-s.git.ended
}

// answerSync serves OpSync.
func (s *Supervisor) answerSync(c net.Conn) {
	var answer wire.Synced
	if s.git.bridge != nil {
		notes, err := s.sync(context.Background())
		answer.Notes = notes
		if err != nil {
			answer.Error, answer.Hint = err.Error(), hint.Of(err)
		}
	}
	_ = wire.WriteMessage(c, wire.Event{Synced: &answer})
}

// Sync has the supervisor at the end of a line bring commits over, and says what the user
// should know.
func Sync(l wire.Opener) (notes []string, err error) {
	c, err := l.Open()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := wire.WriteMessage(c, wire.Request{Op: wire.OpSync}); err != nil {
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
