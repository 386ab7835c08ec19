package image

import (
	"io"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/ui"
)

// ledge ends a pull that would take the last of a disk. What is fetched is as large as a stranger
// says, and a layer grows a thousandfold when it is unpacked.
type ledge struct {
	short func() string // what is short on the disk, see [limits.Disk.Short]
	close func()
}

// lookEvery is after how many bytes the disk is looked at again.
const lookEvery = 4 << 20

func openLedge(dir string) ledge {
	disk, _ := limits.OpenDisk(dir, limits.DefaultKeepFree) // nil if it does not count what is free
	return ledge{disk.Short, disk.Close}
}

// above is a reader of what will be written.
func (l ledge) above(r io.Reader) io.Reader { return &careful{Reader: r, ledge: l} }

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
	if short := c.ledge.short(); short != "" {
		return 0, ui.Error("the disk is nearly full: "+short, "make room, with 'coffer images prune' for one")
	}
	return n, err
}
