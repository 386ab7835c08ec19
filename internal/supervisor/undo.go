package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// patienceUndo bounds how long an undo may take.
const patienceUndo = 5 * time.Minute

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
	Force   bool   `json:"force,omitempty"` // also what the user changed himself
}

// Undone is the answer: the checkpoint that was made, if any.
type Undone struct {
	Checkpoint *checkpoint.Checkpoint `json:"checkpoint,omitempty"`
	To         *checkpoint.Checkpoint `json:"to,omitempty"`     // the one that was restored
	Failed     []string               `json:"failed,omitempty"` // what could not be restored
	Running    int                    `json:"running,omitempty"`
	Error      string                 `json:"error,omitempty"`
	Hint       string                 `json:"hint,omitempty"`
}

// resumeUndo finishes an undo in which somebody was killed.
func (s *Supervisor) resumeUndo(ctx context.Context) {
	if !s.keeps() {
		return
	}
	if _, n, err := checkpoint.Read(s.Sandbox.Dir()); err != nil || n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patienceUndo)
	defer cancel()
	all, release, err := s.keeper.take(ctx, s)
	if err == nil {
		defer release()
		var failed map[string]error
		_, failed, err = all.Resume(ctx, s)
		for _, why := range tellFailed(failed) {
			s.notices.tell("an undo was interrupted, and finished now; not restored: " + why)
		}
	}
	if err != nil {
		s.notices.tell("an undo was interrupted, and could not be finished: " + err.Error())
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

// undo restores a checkpoint; 0 is the one before the last. Who starts a program meanwhile
// waits for its end, for as long as anybody waits for a checkpoint.
func (s *Supervisor) undo(n int, force bool) (answer Undone, err error) {
	s.mu.Lock()
	answer.Running = s.execs
	s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(s.keeper.life, patienceUndo, errLong)
	defer cancel()
	all, release, err := s.keeper.take(ctx, s)
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
		if n == 0 {
			return answer, ui.Error("there is nothing to undo: nothing was changed yet", "see 'coffer checkpoints "+s.Sandbox.Name+"'")
		}
		return answer, ui.Error(fmt.Sprintf("there is no checkpoint %d", n), "see 'coffer checkpoints "+s.Sandbox.Name+"'")
	}
	yours, err := all.Yours(n)
	if err != nil {
		return answer, err
	}
	if len(yours) > 0 && !force {
		return answer, refuseYours(yours, n)
	}
	made, failed, err := all.Undo(ctx, s, n)
	answer.Failed, answer.Checkpoint, answer.To = tellFailed(failed), made, &to
	return answer, err
}

// refuseYours is about files of the user's own directory that he has worked on.
func refuseYours(paths []string, n int) error {
	what := changes.Quote(paths[0])
	if more := len(paths) - 1; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return ui.Error(fmt.Sprintf("you changed %s yourself after checkpoint %d, and that would be taken back", what, n),
		"with --force it is; what is there now is a checkpoint already, and can be had back")
}

// answerUndo serves OpUndo.
func (s *Supervisor) answerUndo(c net.Conn, asked json.RawMessage) {
	var r undoRequest
	var answer Undone
	err := json.Unmarshal(asked, &r)
	switch {
	case err != nil:
	case !s.keeps():
		err = NoCheckpoints(s.Sandbox)
	case r.What == undoTake:
		answer.Checkpoint, err = s.checkpoint(r.Command, nil)
	case r.What == undoTo:
		answer, err = s.undo(r.N, r.Force)
	}
	if err != nil {
		answer.Error, answer.Hint = err.Error(), ui.HintOf(err)
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
			err = ui.Hint(err, "%s", answer.Hint)
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
func Undo(l wire.Opener, n int, force bool) (Undone, error) {
	return askUndo(l, undoRequest{What: undoTo, N: n, Force: force})
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
