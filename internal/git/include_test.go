package git

import (
	"testing"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
)

// What is the host's is not below the directory of what is the sandbox's. A repository that was
// included by an older coffer finds its things where they were: its git directory names them.
func TestInsidePlaces(t *testing.T) {
	writable := rootfs.Own + "/include"
	for _, c := range []struct {
		state           State
		git, host, objs string
	}{
		{State{}, "/.coffer/git", "/.coffer/host.git", "/.coffer/objects"},
		{State{Include: "lib", Apart: true}, writable + "/lib/git", "/.coffer/included/lib/host.git", "/.coffer/included/lib/objects"},
		{State{Include: "lib"}, writable + "/lib/git", writable + "/lib/host.git", writable + "/lib/objects"},
	} {
		b := &Bridge{State: c.state}
		if b.InsideDir() != c.git || b.insideHost() != c.host || b.insideObjects() != c.objs {
			t.Errorf("%+v: %s, %s, %s", c.state, b.InsideDir(), b.insideHost(), b.insideObjects())
		}
		if c.state.Apart && (safepath.Within(b.insideHost(), writable) || safepath.Within(b.insideObjects(), writable)) {
			t.Errorf("what is the host's can be written, for Landlock, in %s", writable)
		}
	}
}
