package limits

import (
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Without limits, or with those that need no cgroup, nothing is read: there is
// no /proc here to read.
func TestNoCgroupNeeded(t *testing.T) {
	s := &system{proc: "/nonexistent", nprocPerNamespace: true, hard: func(int) uint64 { return 5000 }}
	g, err := s.prepare("box", Limits{PidsDefault: 4096, OpenFiles: 1024})
	must(t, err)
	want := []Rlimit{
		{Resource: unix.RLIMIT_NOFILE, Soft: 1024, Hard: 1024},
		{Resource: unix.RLIMIT_NPROC, Soft: 4096, Hard: 4096},
	}
	if got := g.Rlimits(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	must(t, g.Add(1))
	must(t, g.Close())

	// A default is best effort: as much as there is, or nothing.
	g, err = s.prepare("box", Limits{PidsDefault: 9999})
	must(t, err)
	if got := g.Rlimits()[0].Hard; got != 5000 {
		t.Errorf("default of %d, want 5000", got)
	}
	s.nprocPerNamespace = false
	if g, err := s.prepare("box", Limits{PidsDefault: 4096}); g != nil || err != nil {
		t.Errorf("got %v, %v; want nothing", g, err)
	}

	// What was asked for is not.
	var no *UnavailableError
	if _, err := s.prepare("box", Limits{OpenFiles: 5001}); !errors.As(err, &no) || no.Limit != "open files" {
		t.Errorf("more files than we have: %v", err)
	}
}

func TestNilGroup(t *testing.T) {
	g, err := Prepare("", Limits{})
	if g != nil || err != nil {
		t.Fatalf("got %v, %v", g, err)
	}
	must(t, g.Add(os.Getpid()))
	must(t, g.Close())
	if g.OOMKilled() || g.Rlimits() != nil {
		t.Error("a sandbox without limits has some")
	}
	if allocs := testing.AllocsPerRun(10, func() { _, _ = Prepare("x", Limits{}) }); allocs != 0 {
		t.Errorf("no limits cost %v allocations", allocs)
	}
}

func TestPidsByRlimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		euid  int
		perNS bool
		want  string // in the error; "" is an rlimit
	}{
		{"user", 1000, true, ""},
		{"old kernel", 1000, false, "since Linux 5.14"},
		{"root", 0, true, "not hold for root"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, s := newFakeV2(t, "/u", 100, 77)
			s.euid, s.nprocPerNamespace = tt.euid, tt.perNS
			g, err := s.prepare("box", Limits{Pids: 20})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || s.probe().Pids.Available() {
					t.Errorf("error %v, probe %+v; want %q", err, s.probe().Pids, tt.want)
				}
				return
			}
			must(t, err)
			if r := g.Rlimits(); len(r) != 1 || r[0] != (Rlimit{unix.RLIMIT_NPROC, 20, 20}) {
				t.Errorf("rlimits %v", r)
			}
			if m := s.probe().Pids.Mechanism; m != ByRlimit {
				t.Errorf("probe says %q", m)
			}
		})
	}
}

func TestKernelAtLeast(t *testing.T) {
	if !kernelAtLeast(2, 6) || kernelAtLeast(math.MaxInt32, 0) {
		t.Error("cannot tell the kernel's version")
	}
}
