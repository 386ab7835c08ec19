package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// keeper takes checkpoints of a sandbox that has a git directory: after every command that
// changed something, and before one if something changed since. One at a time is at work,
// and nobody waits for it longer than his context lasts.
type keeper struct {
	begun atomic.Bool // a program was run
	turn  chan struct{}
	life  context.Context // ends with the sandbox
	end   context.CancelFunc
	work  sync.WaitGroup // what goes on beside programs

	all  *git.Moments // nil until they are needed; who has the turn has it
	rest *time.Timer
}

// patienceCheckpoint bounds how long a command waits for its checkpoint. The files are a
// stranger's and may be any number.
const patienceCheckpoint = 20 * time.Second

// restAfter is how long the kernel's help is kept while nothing runs: each user has some
// hundred watchers, for all programs.
const restAfter = time.Minute

var errLong = errors.New("it took too long")

// open makes it ready.
func (k *keeper) open() {
	k.turn = make(chan struct{}, 1)
	k.life, k.end = context.WithCancel(context.Background())
}

// take waits for a turn, and opens the checkpoints. The caller calls release.
func (k *keeper) take(ctx context.Context, s *Supervisor) (all *git.Moments, release func(), err error) {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	release = func() { <-k.turn }
	if k.all == nil {
		if k.all, err = s.git.bridge.Moments(ctx, s.access(), s.includedBridges()); err != nil {
			k.all = nil
			release()
			return nil, nil, err
		}
	}
	return k.all, release, nil
}

// keeps says whether checkpoints are taken here at all: a throw-away takes its own along.
func (s *Supervisor) keeps() bool { return s.git.bridge != nil && !s.Sandbox.Ephemeral }

// access says how the files are reached, and which are hidden.
func (s *Supervisor) access() (a git.Access) {
	mode := s.Sandbox.Workspace.Mode
	a.HiddenIn = s.masks.covers
	if mode == sandbox.WorkspaceCOW {
		a.Top = s.insideTop
	}
	for _, one := range s.masks.trees() {
		if one.at == s.Sandbox.Workspace.Path {
			a.Hidden = func(path string) bool {
				return atIncluded(path) || s.masks.covers(one.tree.Root, path) || mode != sandbox.WorkspaceTree && one.tree.Hides(path, false) != nil
			}
		}
	}
	return a
}

// atIncluded says whether a path of the workspace is one of another repository.
func atIncluded(path string) bool {
	return path == rootfs.IncludeAt || strings.HasPrefix(path, rootfs.IncludeAt+"/")
}

// insideTop opens the workspace as the sandbox sees it: what it changed lies over what the
// user has, and only there.
func (s *Supervisor) insideTop() (top *checkpoint.Dir, writer int, err error) {
	root, owner, err := s.instance.Root()
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	if owner != os.Geteuid() {
		writer = owner
	}
	top, err = checkpoint.OpenDirStrictly(fmt.Sprintf("/proc/self/fd/%d", root.Fd()), s.Sandbox.Workspace.Path)
	return top, writer, err
}

// beforeProgram makes what changed while no program ran a checkpoint of its own. In a new
// worktree nothing has: then it only gets ready, while the program runs. It returns what
// the user should know.
func (s *Supervisor) beforeProgram() ([]string, error) {
	if why := s.frozen(); why != "" {
		return nil, errors.New(why)
	}
	if err := s.hideNew(); err != nil {
		return nil, err
	}
	if !s.keeps() {
		return nil, nil
	}
	fresh := !s.keeper.begun.Swap(true) && !checkpoint.Exist(s.Sandbox.Dir())
	if fresh && s.Sandbox.Workspace.Mode == sandbox.WorkspaceTree {
		s.keeper.work.Go(s.arm)
		return nil, nil
	}
	_, err := s.checkpoint(git.Meanwhile, nil)
	return untaken(err), nil
}

// afterProgram makes what a program changed a checkpoint. What it committed has been brought
// over when arrived is closed.
func (s *Supervisor) afterProgram(e *wire.Exec, arrived <-chan struct{}) []string {
	if !s.keeps() || e == nil {
		return nil
	}
	var words []byte
	for _, a := range e.Argv {
		if len(words) < maxWords {
			words = append(append(words, a[:min(len(a), maxWords)]...), ' ')
		}
	}
	_, err := s.checkpoint(strings.ToValidUTF8(strings.TrimSpace(string(words)), "?"), arrived)
	return untaken(err)
}

// maxWords bounds what is kept of a command line.
const maxWords = 400

func untaken(err error) []string {
	if err == nil || errors.Is(err, context.Canceled) { // then the sandbox ends
		return nil
	}
	return []string{"no checkpoint was taken: " + err.Error()}
}

// arm gets ready to tell whether something changes.
func (s *Supervisor) arm() {
	ctx, cancel := context.WithTimeout(s.keeper.life, patienceCheckpoint)
	defer cancel()
	if all, release, err := s.keeper.take(ctx, s); err == nil {
		defer release()
		_ = all.Arm(ctx) // without, the files are looked at
	}
}

// checkpoint takes one, if something changed. See [git.Moments.TakeMeanwhile].
func (s *Supervisor) checkpoint(command string, arrived <-chan struct{}) (*checkpoint.Checkpoint, error) {
	ctx, cancel := context.WithTimeoutCause(s.keeper.life, patienceCheckpoint, errLong)
	defer cancel()
	all, release, err := s.keeper.take(ctx, s)
	if err != nil {
		return nil, err
	}
	defer release()
	s.restLater()
	if all.Quiet() && !(command == git.Meanwhile && all.Shared()) {
		return nil, nil
	}
	taken, err := all.TakeMeanwhile(ctx, command, arrived)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return taken, err
}

// restLater gives the watch back when nothing has run for a while. It is our turn.
func (s *Supervisor) restLater() {
	if s.keeper.rest != nil {
		s.keeper.rest.Stop()
	}
	s.keeper.rest = time.AfterFunc(restAfter, s.keeper.restNow)
}

// restNow gives back what is not needed while nothing runs, unless somebody is at it.
func (k *keeper) restNow() {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	default:
		return
	}
	if k.all != nil {
		k.all.Rest()
	}
}

// close ends what is under way: an undo is finished with the next start.
func (k *keeper) close() {
	k.end()
	k.work.Wait()
	k.turn <- struct{}{} // who has it gives it back soon
	defer func() { <-k.turn }()
	if k.rest != nil {
		k.rest.Stop()
	}
	if k.all != nil {
		k.all.Rest()
	}
}
