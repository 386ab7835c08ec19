package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/confine/int80"
)

const i386Getpid = 20 // writev on x86-64

// runHelper tries the 32-bit entry in a process of its own, which dies if the
// kernel has none.
func runHelper(helper string) {
	runtime.LockOSThread()
	if helper == "int80 confined" {
		if err := lockdown("/dev"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	switch got := int80.Call(i386Getpid); {
	case got == int32(os.Getpid()):
		fmt.Print("open")
	case syscall.Errno(-got) == syscall.ENOSYS:
		fmt.Print("ENOSYS")
	default:
		fmt.Print(got)
	}
	os.Exit(0)
}

func TestInt80(t *testing.T) {
	out, err := helperCommand("int80 control").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && strings.Contains(string(exit.Stderr), "SIGSEGV") {
		t.Skip("this kernel has no 32-bit emulation")
	}
	if string(out) == "ENOSYS" {
		t.Skip("somebody else has closed the 32-bit entry")
	}
	if err != nil || string(out) != "open" {
		t.Fatalf("unconfined: %s, %v", out, err)
	}
	if out, err := helperCommand("int80 confined").Output(); err != nil || string(out) != "ENOSYS" {
		t.Errorf("int 0x80 under the filter: %s, %v", out, err)
	}
}
