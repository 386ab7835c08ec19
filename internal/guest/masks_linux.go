package guest

import (
	"encoding/json"
	"errors"
	"net"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/guest/wire/mux"
	"github.com/cofferhq/coffer/internal/rootfs"
	"golang.org/x/sys/unix"
)

// hide covers places that must stay unread, or as they are, and tells for each what went wrong: nothing,
// or that it is not there.
func hide(s net.Conn, layers *rootfs.Layers, places []wire.Cover) {
	said := make([]string, len(places))
	for i, p := range places {
		var err error
		switch path, tree := string(p.Path), string(p.Tree); {
		case p.Keep:
			err = layers.Lock(path, tree)
		case p.Free:
			err = layers.Free(path)
		case p.Stale:
			err = layers.ForbidStale(path)
		default:
			err = layers.Forbid(path, tree, p.Dir)
		}
		switch {
		// A link in the way was put in the place of a directory, of which the host hears.
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			said[i] = wire.NotThere
		// Two directories of a view cannot be one and the same below it, if the sandbox has
		// written to the one.
		case errors.Is(err, unix.ESTALE):
			said[i] = wire.OldName
		case err != nil:
			said[i] = err.Error()
		}
	}
	b, err := json.Marshal(said)
	if err == nil {
		err = wire.WriteMessage(s, wire.Event{Masks: b})
	}
	if err != nil {
		_ = wire.WriteMessage(s, wire.Event{Failure: &wire.Failure{Code: 125, Message: "the answer is too long"}})
	}
	mux.HangUp(s)
}
