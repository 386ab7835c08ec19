package sandbox

import (
	"testing"

	"github.com/cofferhq/coffer/internal/policy"
)

// A record with a mount that no config could have made is damaged.
func TestMountValidate(t *testing.T) {
	for _, m := range []Mount{
		{"relative", "/x", true, false}, {"/x", "relative", true, false}, {"/", "/x", true, false}, {"/x", "/", true, false}, {"/x/../y", "/x", true, false},
		{"/x", "/x/", true, false}, {"/x\x00", "/x", true, false}, {"", "/x", true, false}, {"/x", "", true, false}, {"/x\xff", "/x", true, false},
	} {
		rec := fullRecord()
		rec.Mounts = []Mount{m}
		if err := rec.validate(); err == nil {
			t.Errorf("%+v is valid", m)
		}
	}
	rec := fullRecord()
	if err := rec.validate(); err != nil {
		t.Error(err)
	}
}

func TestWritesHost(t *testing.T) {
	for _, c := range []struct {
		rec  Record
		want bool
	}{
		{Record{Workspace: Workspace{Mode: WorkspaceDirect}}, true},
		{Record{Workspace: Workspace{Mode: WorkspaceCOW}}, false},
		{Record{Workspace: Workspace{Mode: WorkspaceNone}, Mounts: []Mount{{"/a", "/a", true, false}}}, false},
		{Record{Workspace: Workspace{Mode: WorkspaceCOW}, Mounts: []Mount{{"/a", "/a", true, false}, {"/b", "/b", false, false}}}, true},
	} {
		if got := c.rec.WritesHost(); got != c.want {
			t.Errorf("%+v: %v", c.rec, got)
		}
	}
}

// There is a network where rules or ports make one, although the mode allows nothing.
func TestNetworkNone(t *testing.T) {
	for _, c := range []struct {
		n    Network
		none bool
		word string
	}{
		{Network{}, true, "none"},
		{Network{Mode: "none"}, true, "none"},
		{Network{Mode: "none", Rules: []policy.Source{{Groups: []string{"npm"}}}}, false, "rules"},
		{Network{Mode: "none", HostPorts: []HostPort{{1, 1}}}, false, "rules"},
		{Network{Mode: "standard"}, false, "standard"},
	} {
		if c.n.None() != c.none || c.n.Describe() != c.word {
			t.Errorf("%+v: %v, %s", c.n, c.n.None(), c.n.Describe())
		}
	}
}
