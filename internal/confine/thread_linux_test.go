package confine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary stand in for the programs that tests start:
// CONFINE_HELPER names what to do instead of testing.
func TestMain(m *testing.M) {
	switch helper := os.Getenv("CONFINE_HELPER"); helper {
	case "":
		os.Exit(m.Run())
	case "trampoline": // confine this process, then become the program
		runtime.LockOSThread()
		err := lockdown("/dev")
		if err == nil {
			err = syscall.Exec(os.Args[1], os.Args[1:], nil)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	default:
		runHelper(helper)
	}
}

func helperCommand(helper string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "CONFINE_HELPER="+helper)
	return cmd
}

// onThread runs f on a fresh thread that dies with it, as the callers of this
// package do. The other threads of the test stay free, which is itself tested.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// lockdown applies everything.
func lockdown(write ...string) error {
	if err := unfiltered(); err != nil {
		return err
	}
	if LandlockABI() > 0 {
		if err := Landlock(LandlockRules{Write: write}); err != nil {
			return err
		}
	}
	return Seccomp(SeccompOptions{})
}

// unfiltered drops privileges but installs no filter: the control that shows
// which errors are the filter's.
func unfiltered() error {
	if err := NoNewPrivs(); err != nil {
		return err
	}
	return DropCapabilities()
}

// status is what /proc says of one thread.
type status map[string]string

func threadStatus() (status, error) {
	text, err := os.ReadFile("/proc/thread-self/status")
	return parseStatus(string(text)), err
}

func parseStatus(text string) status {
	s := status{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		s[key] = strings.TrimSpace(value)
	}
	return s
}

// caps are the five capability sets.
func (s status) caps() map[string]uint64 {
	sets := map[string]uint64{}
	for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		sets[name], _ = strconv.ParseUint(s[name], 16, 64)
	}
	return sets
}

// hasCap says whether this process, where unconfined, has a capability.
func hasCap(t *testing.T, c int) bool {
	t.Helper()
	s, err := threadStatus()
	if err != nil {
		t.Fatal(err)
	}
	return s.caps()["CapEff"]>>c&1 == 1
}
