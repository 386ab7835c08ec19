package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// keeper takes checkpoints of a worktree sandbox: after every command that changed
// something, and before one if something changed since.
type keeper struct {
	begun atomic.Bool // a program was run
	mu    sync.Mutex
	all   *gitbridge.Checkpoints // nil until they are needed
	rest  *time.Timer
}

// patienceCheckpoint bounds how long a command waits for its checkpoint. The files are a
// stranger's and may be any number.
const patienceCheckpoint = 20 * time.Second

// patienceUndo bounds how long an undo may take.
const patienceUndo = 5 * time.Minute

// restAfter is how long the kernel's help is kept while nothing runs: each user has some
// hundred watchers, for all programs.
const restAfter = time.Minute

// What OpUndo can ask for.
const (
	undoTake = "take" // take a checkpoint, if something changed
	undoTo   = "to"   // restore one
)

// undoRequest is what a command asks.
type undoRequest struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
	N       int    `json:"n,omitempty"`
}

// Undone is the answer: the checkpoint that was made, if any.
type Undone struct {
	Checkpoint *checkpoint.Checkpoint `json:"checkpoint,omitempty"`
	Failed     []string               `json:"failed,omitempty"` // what could not be restored
	Running    int                    `json:"running,omitempty"`
	Error      string                 `json:"error,omitempty"`
	Hint       string                 `json:"hint,omitempty"`
}

// keeps says whether checkpoints are taken here at all.
func (s *Supervisor) keeps() bool {
	return s.git.bridge != nil && s.Sandbox.Workspace.Mode == sandbox.WorkspaceTree
}

// checkpoints opens them. The keeper's lock is held.
func (s *Supervisor) checkpoints(ctx context.Context) (*gitbridge.Checkpoints, error) {
	if s.keeper.all != nil {
		return s.keeper.all, nil
	}
	all, err := s.git.bridge.Checkpoints(ctx)
	if err == nil {
		s.keeper.all = all
	}
	return all, err
}

// beforeProgram makes what changed while no program ran a checkpoint of its own. In a new
// sandbox nothing has: then it only gets ready, while the program runs. It returns what
// the user should know.
func (s *Supervisor) beforeProgram() []string {
	if !s.keeps() {
		return nil
	}
	if !s.keeper.begun.Swap(true) && !checkpoint.Exist(s.Sandbox.Dir()) {
		go s.arm()
		return nil
	}
	_, err := s.checkpoint(context.Background(), "(between commands)")
	return untaken(err)
}

// afterProgram makes what a program changed a checkpoint.
func (s *Supervisor) afterProgram(e *wire.Exec) []string {
	if !s.keeps() || e == nil {
		return nil
	}
	var words []byte
	for _, a := range e.Argv {
		if len(words) < maxWords {
			words = append(append(words, a[:min(len(a), maxWords)]...), ' ')
		}
	}
	_, err := s.checkpoint(context.Background(), strings.ToValidUTF8(strings.TrimSpace(string(words)), "?"))
	return untaken(err)
}

// maxWords bounds what is kept of a command line.
const maxWords = 400

func untaken(err error) []string {
	if err == nil {
		return nil
	}
	return []string{"no checkpoint was taken: " + err.Error()}
}

// arm gets ready to tell whether something changes.
func (s *Supervisor) arm() {
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patienceCheckpoint)
	defer cancel()
	if all, err := s.checkpoints(ctx); err == nil {
		_ = all.Arm(ctx) // without, the files are looked at
	}
}

// checkpoint takes one, if something changed.
func (s *Supervisor) checkpoint(ctx context.Context, command string) (*checkpoint.Checkpoint, error) {
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, patienceCheckpoint, errors.New("it took too long"))
	defer cancel()
	all, err := s.checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	s.restLater()
	if all.Quiet() {
		return nil, nil
	}
	taken, err := all.Take(ctx, command)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return taken, err
}

// restLater gives the watch back when nothing has run for a while. The lock is held.
func (s *Supervisor) restLater() {
	if s.keeper.rest != nil {
		s.keeper.rest.Stop()
	}
	s.keeper.rest = time.AfterFunc(restAfter, s.restCheckpoints)
}

// restCheckpoints gives back what is not needed while nothing runs.
func (s *Supervisor) restCheckpoints() {
	if !s.keeper.mu.TryLock() {
		return // they are needed
	}
	defer s.keeper.mu.Unlock()
	if s.keeper.all != nil {
		s.keeper.all.Rest()
	}
}

// resumeUndo finishes an undo in which somebody was killed.
func (s *Supervisor) resumeUndo() {
	if !s.keeps() {
		return
	}
	if _, n, err := checkpoint.Read(s.Sandbox.Dir()); err != nil || n == 0 {
		return
	}
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patienceUndo)
	defer cancel()
	all, err := s.checkpoints(ctx)
	if err == nil {
		_, _, err = all.Resume(ctx, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "finish an undo:", err)
	}
}

// undo restores a checkpoint; 0 is the one before the last.
func (s *Supervisor) undo(n int) (answer Undone, err error) {
	s.mu.Lock()
	answer.Running = s.execs
	s.mu.Unlock()
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patienceUndo)
	defer cancel()
	all, err := s.checkpoints(ctx)
	if err != nil {
		return answer, err
	}
	// What was changed since the last one counts as the last.
	if _, err := all.Take(ctx, "(between commands)"); err != nil {
		return answer, err
	}
	list := all.All()
	if n == 0 && len(list) > 1 {
		n = list[len(list)-2].N
	}
	if _, ok := all.Get(n); !ok {
		if n == 0 {
			return answer, hint.New("there is nothing to undo: nothing was changed yet", "see 'coffer checkpoints "+s.Sandbox.Name+"'")
		}
		return answer, hint.New(fmt.Sprintf("there is no checkpoint %d", n), "see 'coffer checkpoints "+s.Sandbox.Name+"'")
	}
	made, failed, err := all.Undo(ctx, s, n)
	for path, why := range failed {
		answer.Failed = append(answer.Failed, changes.Quote(path)+": "+why.Error())
	}
	slices.Sort(answer.Failed)
	answer.Failed = answer.Failed[:min(len(answer.Failed), 20)]
	answer.Checkpoint = made
	return answer, err
}

// answerUndo serves OpUndo.
func (s *Supervisor) answerUndo(c net.Conn, asked json.RawMessage) {
	var r undoRequest
	var answer Undone
	err := json.Unmarshal(asked, &r)
	switch {
	case err != nil:
	case !s.keeps():
		err = hint.New(fmt.Sprintf("sandbox %s has no checkpoints", s.Sandbox.Name), "they are kept of worktrees: use --workspace worktree when you make a sandbox")
	case r.What == undoTake:
		answer.Checkpoint, err = s.checkpoint(context.Background(), r.Command)
	case r.What == undoTo:
		answer, err = s.undo(r.N)
	}
	if err != nil {
		answer.Error, answer.Hint = err.Error(), hint.Of(err)
	}
	if b, err := json.Marshal(answer); err == nil {
		_ = wire.WriteMessage(c, wire.Event{Undone: b})
	}
}

// askUndo asks the supervisor at the end of a line.
func askUndo(l wire.Opener, r undoRequest) (answer Undone, err error) {
	asked, err := json.Marshal(r)
	if err != nil {
		return answer, err
	}
	c, err := l.Open()
	if err != nil {
		return answer, err
	}
	defer c.Close()
	if err := wire.WriteMessage(c, wire.Request{Op: wire.OpUndo, Undo: asked}); err != nil {
		return answer, err
	}
	var e wire.Event
	if err := wire.ReadMessage(c, wire.MaxList, &e); err != nil {
		return answer, err
	}
	if err := json.Unmarshal(e.Undone, &answer); err != nil {
		return answer, errors.New("the supervisor did not say whether it was done")
	}
	if answer.Error != "" {
		err = errors.New(answer.Error)
		if answer.Hint != "" {
			err = hint.Wrap(err, "%s", answer.Hint)
		}
	}
	return answer, err
}

// Checkpoint asks for a checkpoint, if something changed.
func Checkpoint(l wire.Opener, command string) (*checkpoint.Checkpoint, error) {
	answer, err := askUndo(l, undoRequest{What: undoTake, Command: command})
	return answer.Checkpoint, err
}

// Undo restores a checkpoint; 0 is the one before the last.
func Undo(l wire.Opener, n int) (Undone, error) {
	return askUndo(l, undoRequest{What: undoTo, N: n})
}
