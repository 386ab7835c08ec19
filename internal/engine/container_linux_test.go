package engine

import (
	"testing"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// What the user has mounted is handed over also when an image has a directory of that name.
func TestClosed(t *testing.T) {
	mount := &rootfs.Step{Do: rootfs.Bind, Source: "/data", Target: "/mnt", Mine: true}
	if !closed(&rootfs.Plan{Owned: true, System: []string{"/data"}}, mount) {
		t.Error("a mount is taken for a directory of the image")
	}
	usr := &rootfs.Step{Do: rootfs.Bind, Source: "/usr", Target: "/usr", ReadOnly: true}
	if closed(&rootfs.Plan{System: []string{"/usr"}}, usr) {
		t.Error("the host's system directories need nobody's help")
	}
}
