package umask

import (
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	was := syscall.Umask(Usual)
	t.Cleanup(func() { syscall.Umask(was); own = read() })
	if own = read(); Own() != nil {
		t.Errorf("the usual one is %#o", *Own())
	}
	for _, mask := range []int{0, 0o002, 0o077, Most} {
		syscall.Umask(mask)
		own = read()
		if got := Own(); got == nil || int(*got) != mask {
			t.Errorf("%#o was read as %v", mask, got)
		}
		if left := syscall.Umask(mask); left != mask {
			t.Errorf("%#o is left after %#o was read", left, mask)
		}
	}
}
