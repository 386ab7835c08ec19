package ahead

import (
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/steps"
	"github.com/cofferhq/coffer/internal/testbed"
)

func TestExpected(t *testing.T) {
	both, noNet := &Wanted{true, true}, &Wanted{false, true}
	for line, want := range map[string]*Wanted{
		"coffer":                           nil,
		"coffer jail":                      nil,
		"coffer run jail -- true":          nil,
		"/x/sudo jail -- true":             nil,
		"coffer-guest jail -- true":        nil,
		"coffer jail --help":               nil,
		"coffer jail --in-place -- true":   nil,
		"coffer jail --sandbox off -- x":   nil,
		"coffer jail --sandbox=off -- x":   nil,
		"coffer jail -- true":              both,
		"/x/coffer jail -C d -- sh --help": both,
		"coffer jail claude":               both,
		"coffer jail --net none -- true":   both,
		"coffer jail --net host -- true":   noNet,
		"coffer jail --net=host claude":    noNet,
		"coffer jail -- curl --net host":   both,
	} {
		got, ok := expected(strings.Fields(line))
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%q: %v, %v", line, got, ok)
		}
	}
}

// A maker does what is added to its list; one that nobody needs goes away by itself.
func TestMaker(t *testing.T) {
	testbed.Namespaces(t, syscall.CLONE_NEWPID|syscall.CLONE_NEWIPC)
	m, err := Begin(Wanted{Processes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.End(true)
	m.Call("say something", syscall.SYS_WRITE, uintptr(m.LineFD), m.Text("here"), 4)
	m.Act("stay", steps.Stay)
	if err := m.Go(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := m.Line.Read(buf)
	if failed := m.Failure(buf[:n]); failed != nil {
		t.Fatal(failed)
	}
	if err != nil || string(buf[:n]) != "here" {
		t.Fatalf("%q, %v", buf[:n], err)
	}

	unneeded, err := Begin(Wanted{Processes: true})
	if err != nil {
		t.Fatal(err)
	}
	unneeded.Line.Close()
	if !steps.Shared {
		return // it was never there
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		_, err = syscall.Wait4(unneeded.PID, nil, 0, nil)
	}
	if err != nil {
		t.Error(err)
	}
}
