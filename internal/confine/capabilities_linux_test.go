package confine

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// sets are the capability sets seen by a thread after f, and by a program it
// then starts.
func sets(t *testing.T, f func() error) (thread, program map[string]uint64) {
	t.Helper()
	err := onThread(func() error {
		if err := f(); err != nil {
			return err
		}
		s, err := threadStatus()
		if err != nil {
			return err
		}
		thread = s.caps()
		out, err := exec.Command("/bin/cat", "/proc/self/status").Output()
		program = parseStatus(string(out)).caps()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return thread, program
}

func TestDropAllCapabilities(t *testing.T) {
	before, err := threadStatus()
	if err != nil {
		t.Fatal(err)
	}
	thread, program := sets(t, unfiltered)
	for _, got := range []map[string]uint64{thread, program} {
		for name, set := range got {
			if name == "CapBnd" && !hasCap(t, unix.CAP_SETPCAP) {
				continue // cannot be changed, and no_new_privs makes it moot
			}
			if set != 0 {
				t.Errorf("%s: %#x, want none", name, set)
			}
		}
	}
	if after, _ := threadStatus(); after["CapEff"] != before["CapEff"] || after["NoNewPrivs"] != before["NoNewPrivs"] {
		t.Errorf("another thread changed: %v", after)
	}
}

func TestKeepCapabilities(t *testing.T) {
	if (!hasCap(t, unix.CAP_SETPCAP) || !hasCap(t, unix.CAP_CHECKPOINT_RESTORE)) && !testbed.Apart(t) {
		return
	}
	keep := []int{unix.CAP_CHOWN, unix.CAP_NET_BIND_SERVICE, unix.CAP_CHECKPOINT_RESTORE} // the last is above 32
	const want = 1<<unix.CAP_CHOWN | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_CHECKPOINT_RESTORE
	for name, noNewPrivs := range map[string]bool{"no_new_privs": true, "plain": false} {
		thread, program := sets(t, func() error {
			if noNewPrivs {
				if err := NoNewPrivs(); err != nil {
					return err
				}
			}
			return DropCapabilities(keep...)
		})
		for _, got := range []map[string]uint64{thread, program} {
			for set, caps := range got {
				if caps != want {
					t.Errorf("%s: %s is %#x, want %#x", name, set, caps, want)
				}
			}
		}
	}
}

// TestDropFailsClosed: what cannot be done is an error, not a shrug.
func TestDropFailsClosed(t *testing.T) {
	if err := onThread(func() error { return DropCapabilities(64) }); err == nil {
		t.Error("kept a capability that does not exist")
	}
	err := onThread(func() error {
		if err := unfiltered(); err != nil {
			t.Error(err)
		}
		return DropCapabilities(unix.CAP_CHOWN)
	})
	if err == nil {
		t.Error("kept a capability that the thread does not have")
	}
	if s, _ := threadStatus(); s["NoNewPrivs"] == "1" || s.caps()["CapBnd"] == 0 {
		t.Skip("exec can gain nothing here anyway")
	}
	err = onThread(func() error {
		if err := setCapabilities(0); err != nil { // CAP_SETPCAP too
			t.Error(err)
		}
		return DropCapabilities()
	})
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("%v, want EPERM: the bounding set is as it was, and exec may draw on it", err)
	}
}

// TestDropLast is the order of a sandbox with sudo: no no_new_privs, therefore
// the capabilities go last, past the filter.
func TestDropLast(t *testing.T) {
	if (!hasCap(t, unix.CAP_SYS_ADMIN) || !hasCap(t, unix.CAP_SETPCAP)) && !testbed.Apart(t) {
		return
	}
	needLandlock(t, 1)
	_, program := sets(t, func() error {
		return errors.Join(Landlock(LandlockRules{Write: []string{"/dev"}}), Seccomp(SeccompOptions{}), DropCapabilities(unix.CAP_SETUID))
	})
	for name, set := range program {
		if set != 1<<unix.CAP_SETUID {
			t.Errorf("%s: %#x, want CAP_SETUID", name, set)
		}
	}
}
