package sandbox

import (
	"os"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/wire"
)

// OwnUmask is the umask of this process, or nil if that is the usual one. It is read from /proc:
// the system call tells it only in exchange for another one, which all threads would have.
func OwnUmask() *uint16 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "Umask:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(text), 8, 9)
			if own := uint16(mask); err == nil && own != wire.UsualUmask {
				return &own
			}
		}
	}
	return nil
}
