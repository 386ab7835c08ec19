//go:build !linux

package jail

import (
	"os"

	"github.com/cofferhq/coffer/internal/ui"
)

// Run says that there is no jail on this system.
func Run(Policy, *os.File) (int, error) {
	return 0, ui.Error("there is no jail for this system", "run coffer on Linux, or in a Linux virtual machine")
}

// Off says the same of programs without any wall: nothing of coffer runs them here.
func Off([]string, string, []string) error {
	_, err := Run(Policy{}, nil)
	return err
}
