package sandbox

import (
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/wire"
)

func TestOwnUmask(t *testing.T) {
	was := syscall.Umask(wire.UsualUmask)
	t.Cleanup(func() { syscall.Umask(was) })
	if got := OwnUmask(); got != nil {
		t.Errorf("the usual one is %#o", *got)
	}
	for _, mask := range []int{0, 0o002, 0o077, 0o777} {
		syscall.Umask(mask)
		if got := OwnUmask(); got == nil || int(*got) != mask {
			t.Errorf("%#o was read as %v", mask, got)
		}
	}
}
