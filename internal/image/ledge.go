package image

import (
	"fmt"
	"io"

	"github.com/cofferhq/coffer/internal/room"
	"github.com/cofferhq/coffer/internal/ui"
)

// ledge ends a pull that would take the last of a disk. What is fetched is as large as a stranger
// says, and a layer grows a thousandfold when it is unpacked.
type ledge struct {
	disk  *room.Disk
	floor room.Floor
}

// lookEvery is after how many bytes the disk is looked at again.
const lookEvery = 4 << 20

func openLedge(dir string) ledge {
	disk, err := room.Open(dir)
	if err != nil {
		return ledge{}
	}
	now, _ := disk.Look()
	return ledge{disk, room.NewFloor(room.Default, now)}
}

func (l ledge) close() {
	if l.disk != nil {
		l.disk.Close()
	}
}

// above is a reader of what will be written.
func (l ledge) above(r io.Reader) io.Reader {
	if l.disk == nil {
		return r
	}
	return &careful{Reader: r, ledge: l}
}

type careful struct {
	io.Reader
	ledge
	since int
}

func (c *careful) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if c.since += n; c.since < lookEvery {
		return n, err
	}
	c.since = 0
	if now, counts := c.disk.Look(); counts && c.floor.Low(now) {
		return 0, ui.Error(fmt.Sprintf("the disk is nearly full: %s", c.floor.Lacks(now)), "make room, with 'coffer images prune' for one")
	}
	return n, err
}
