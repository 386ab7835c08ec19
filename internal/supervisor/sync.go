package supervisor

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// answerSync serves OpSync.
func (s *Supervisor) answerSync(c net.Conn, only *wire.Sync) {
	var answer wire.Synced
	var err error
	if only != nil {
		err = s.fetchCommit(only)
	} else {
		for _, g := range s.gits() {
			b := g.bringOver(time.Minute)
			answer.Notes = append(answer.Notes, g.unheard(b.notes)...)
			if err == nil {
				err = b.err
			}
		}
	}
	if err != nil {
		answer.Error, answer.Hint = err.Error(), ui.HintOf(err)
	}
	_ = wire.WriteMessage(c, wire.Event{Synced: &answer})
}

// fetchCommit brings over one commit, for a hook.
func (s *Supervisor) fetchCommit(only *wire.Sync) error {
	for _, g := range s.gits() {
		if g.bridge.Folder() == only.Repository {
			return g.bridge.Fetch(context.Background(), s, only.Commit)
		}
	}
	return errors.New("the sandbox has no such repository")
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
			err = ui.Hint(err, "%s", e.Synced.Hint)
		}
	}
	return e.Synced.Notes, err
}
