package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// While a sandbox is set up, a file in its folder says so, which is locked for as long as
// whoever does it lives. One that is there and not locked is of a command that was killed:
// the sandbox has half a setup, and that is none.

// beginSetUp marks a sandbox as not set up. done is to be called when it is.
func beginSetUp(sb *sandbox.Sandbox) (done func(), err error) {
	f, err := os.OpenFile(sb.SetupMark(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return nil, fmt.Errorf("begin the setup: %w", err)
	}
	return func() {
		_ = os.Remove(f.Name())
		f.Close()
	}, nil
}

// refuseHalf refuses a sandbox that is not set up.
func refuseHalf(sb *sandbox.Sandbox) error {
	f, err := os.OpenFile(sb.SetupMark(), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("see whether the sandbox is set up: %w", err)
	}
	defer f.Close()
	if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return ui.Error(fmt.Sprintf("sandbox %s is being set up", sb.Name), "wait until the command that makes it says so")
	}
	return ui.Error(fmt.Sprintf("sandbox %s was never set up: the command that made it was killed meanwhile", sb.Name),
		fmt.Sprintf("remove it with 'coffer rm --force %s', and make it again", sb.Name))
}
