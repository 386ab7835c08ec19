package guest

import (
	"encoding/json"
	"errors"
	"net"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// hide covers places that must stay unread, and tells for each what went wrong: nothing, or that it
// is not there.
func hide(s net.Conn, places [][]byte) {
	said := make([]string, len(places))
	for i, p := range places {
		err := rootfs.ForbidNow(string(p))
		switch {
		// A link in the way was put in the place of a directory, of which the host hears. A
		// copy-on-write view may not have heard of the file.
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ESTALE):
			said[i] = wire.NotThere
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
	wire.HangUp(s)
}
