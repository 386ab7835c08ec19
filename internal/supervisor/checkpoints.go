package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

const (
	// patienceCheckpoint bounds how long a command waits for its checkpoint. The files are a
	// stranger's and may be any number.
	patienceCheckpoint = 20 * time.Second
	// patienceUndo bounds how long an undo may take.
	patienceUndo = 5 * time.Minute
	// maxWords bounds what is kept of a command line.
	maxWords = 400
)

var errLong = errors.New("it took too long")

// checkpoints takes checkpoints of a sandbox that has a git directory: after every program that
// changed something, and before one if something changed since.
type checkpoints struct {
	sb      *sandbox.Sandbox
	life    context.Context
	guest   wire.Opener
	commits *commits
	access  func() git.Access
	running func() int
	notices *notices

	begun atomic.Bool   // a program was run
	turn  chan struct{} // held by whoever uses moments
	work  sync.WaitGroup

	moments *git.Moments // nil until needed
}

func newCheckpoints(s *Supervisor) checkpoints {
	return checkpoints{
		sb: s.Sandbox, life: s.life, guest: s, commits: &s.commits, access: s.access, running: s.activity.running, notices: &s.notices,
		turn: make(chan struct{}, 1),
	}
}

// kept says whether checkpoints are taken at all: a throw-away takes its own along.
func (c *checkpoints) kept() bool { return c.commits.own != nil && !c.sb.Ephemeral }

// take waits for a turn, and opens the checkpoints. The caller calls release.
func (c *checkpoints) take(ctx context.Context) (all *git.Moments, release func(), err error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if c.moments == nil {
		if c.moments, err = c.commits.own.bridge.Moments(ctx, c.access(), c.commits.includedBridges()); err != nil {
			c.moments = nil
			<-c.turn
			return nil, nil, err
		}
	}
	return c.moments, func() { <-c.turn }, nil
}

// before takes a checkpoint of what changed while no program ran. In a new worktree nothing has:
// there it only starts to watch, beside the program.
func (c *checkpoints) before() []string {
	if !c.kept() {
		return nil
	}
	fresh := !c.begun.Swap(true) && !checkpoint.Exist(c.sb.Dir())
	if fresh && c.sb.Workspace.Mode == sandbox.WorkspaceTree {
		c.work.Go(c.arm)
		return nil
	}
	_, err := c.checkpoint(git.Meanwhile, nil)
	return untaken(err)
}

// after takes a checkpoint of what a program changed. What it committed has been fetched when
// arrived is closed.
func (c *checkpoints) after(e *wire.Exec, arrived <-chan struct{}) []string {
	if !c.kept() {
		return nil
	}
	var words []byte
	for _, a := range e.Argv {
		if len(words) < maxWords {
			words = append(append(words, a[:min(len(a), maxWords)]...), ' ')
		}
	}
	_, err := c.checkpoint(strings.ToValidUTF8(strings.TrimSpace(string(words)), "?"), arrived)
	return untaken(err)
}

func untaken(err error) []string {
	if err == nil || errors.Is(err, context.Canceled) { // then the sandbox ends
		return nil
	}
	return []string{"no checkpoint was taken: " + err.Error()}
}

// arm watches for changes. Without, the files are looked at.
func (c *checkpoints) arm() {
	ctx, cancel := context.WithTimeout(c.life, patienceCheckpoint)
	defer cancel()
	if all, release, err := c.take(ctx); err == nil {
		defer release()
		_ = all.Arm(ctx)
	}
}

// checkpoint takes one, if something changed. See [git.Moments.TakeMeanwhile].
func (c *checkpoints) checkpoint(command string, arrived <-chan struct{}) (*checkpoint.Checkpoint, error) {
	ctx, cancel := context.WithTimeoutCause(c.life, patienceCheckpoint, errLong)
	defer cancel()
	all, release, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if all.Quiet() && !(command == git.Meanwhile && all.Shared()) {
		return nil, nil
	}
	taken, err := all.TakeMeanwhile(ctx, command, arrived)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return taken, err
}

// close waits for what is under way. The life has ended: an undo is finished with the next start.
func (c *checkpoints) close() {
	c.work.Wait()
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.moments != nil {
		c.moments.Rest()
	}
}

// resume finishes an undo in which the supervisor was killed.
func (c *checkpoints) resume(ctx context.Context) {
	if !c.kept() {
		return
	}
	if _, n, err := checkpoint.Read(c.sb.Dir()); err != nil || n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patienceUndo)
	defer cancel()
	all, release, err := c.take(ctx)
	if err == nil {
		defer release()
		var failed map[string]error
		_, failed, err = all.Resume(ctx, c.guest)
		for _, why := range tellFailed(failed) {
			c.notices.tell("an undo was interrupted, and finished now; not restored: " + why)
		}
	}
	if err != nil {
		c.notices.tell("an undo was interrupted, and could not be finished: " + err.Error())
	}
}

// tellFailed says what could not be restored, and why.
func tellFailed(failed map[string]error) (all []string) {
	for path, why := range failed {
		all = append(all, changes.Quote(path)+": "+why.Error())
	}
	slices.Sort(all)
	return all[:min(len(all), 20)]
}

// undoRequest asks for a checkpoint, or restores one.
type undoRequest struct {
	Command string `json:"command,omitempty"` // takes one, named so, if something changed
	N       int    `json:"n,omitempty"`       // restores this one; 0 is the one before the last
	Force   bool   `json:"force,omitempty"`   // also what the user changed
}

// Undone is the answer: the checkpoint that was made, if any.
type Undone struct {
	Checkpoint *checkpoint.Checkpoint `json:"checkpoint,omitempty"`
	To         *checkpoint.Checkpoint `json:"to,omitempty"`     // the one that was restored
	Failed     []string               `json:"failed,omitempty"` // what could not be restored
	Running    int                    `json:"running,omitempty"`
}

// answer serves OpUndo.
func (c *checkpoints) answer(asked json.RawMessage) (json.RawMessage, error) {
	var r undoRequest
	var answer Undone
	err := json.Unmarshal(asked, &r)
	switch {
	case err != nil:
	case !c.kept():
		err = NoCheckpoints(c.sb)
	case r.Command != "":
		answer.Checkpoint, err = c.checkpoint(r.Command, nil)
	default:
		answer, err = c.undo(r.N, r.Force)
	}
	body, failed := json.Marshal(answer)
	return body, errors.Join(err, failed)
}

// undo restores a checkpoint; 0 is the one before the last. A program that starts meanwhile waits
// for its end, for as long as it waits for a checkpoint.
func (c *checkpoints) undo(n int, force bool) (answer Undone, err error) {
	answer.Running = c.running()
	ctx, cancel := context.WithTimeoutCause(c.life, patienceUndo, errLong)
	defer cancel()
	all, release, err := c.take(ctx)
	if err != nil {
		return answer, err
	}
	defer release()
	// What was changed since the last one counts as the last.
	if _, err := all.Take(ctx, git.Meanwhile); err != nil {
		return answer, err
	}
	list := all.All()
	if n == 0 && len(list) > 1 {
		n = list[len(list)-2].N
	}
	to, ok := all.Get(n)
	if !ok {
		why := fmt.Sprintf("there is no checkpoint %d", n)
		if n == 0 {
			why = "there is nothing to undo: nothing was changed yet"
		}
		return answer, ui.Error(why, "see 'coffer checkpoints "+c.sb.Name+"'")
	}
	yours, err := all.Yours(n)
	if err != nil {
		return answer, err
	}
	if len(yours) > 0 && !force {
		return answer, refuseYours(yours, n)
	}
	made, failed, err := all.Undo(ctx, c.guest, n)
	answer.Failed, answer.Checkpoint, answer.To = tellFailed(failed), made, &to
	return answer, err
}

// refuseYours is about files of the user's own directory that the user has worked on.
func refuseYours(paths []string, n int) error {
	what := changes.Quote(paths[0])
	if more := len(paths) - 1; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return ui.Error(fmt.Sprintf("you changed %s yourself after checkpoint %d, and that would be taken back", what, n),
		"with --force it is; what is there now is a checkpoint already, and can be had back")
}

// askUndo asks the supervisor at the end of a line.
func askUndo(l *wire.Line, r undoRequest) (answer Undone, err error) {
	asked, err := json.Marshal(r)
	if err != nil {
		return answer, err
	}
	e, err := l.Ask(wire.Request{Op: wire.OpUndo, Undo: asked}, patienceUndo+time.Minute)
	if len(e.Undone) > 0 {
		err = errors.Join(err, json.Unmarshal(e.Undone, &answer))
	}
	return answer, err
}

// Checkpoint asks for a checkpoint, if something changed.
func Checkpoint(l *wire.Line, command string) (*checkpoint.Checkpoint, error) {
	answer, err := askUndo(l, undoRequest{Command: command})
	return answer.Checkpoint, err
}

// Undo restores a checkpoint; 0 is the one before the last.
func Undo(l *wire.Line, n int, force bool) (Undone, error) {
	return askUndo(l, undoRequest{N: n, Force: force})
}

// NoCheckpoints says why there are none of a sandbox.
func NoCheckpoints(sb *sandbox.Sandbox) error {
	why, fix := "its workspace is in no git repository that coffer can read", "make one with 'git init' before you make a sandbox"
	switch {
	case sb.Workspace.Mode == sandbox.WorkspaceNone:
		why, fix = "it has no workspace", "use another --workspace when you make a sandbox"
	case sb.Ephemeral:
		why, fix = "it is gone when its program ends", "make one that stays with 'coffer exec --create'"
	}
	return ui.Error(fmt.Sprintf("sandbox %s has no checkpoints: %s", sb.Name, why), fix)
}
