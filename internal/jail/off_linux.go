package jail

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// Off turns this process into a program with no wall around it at all, for users who
// insist. It returns only if that failed, with the exit code that a wall would have given.
func Off(argv []string, dir string, env []string) error {
	path, err := FindProgram(argv[0], dir, env)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, argv, env)
	if errors.Is(err, unix.ENOEXEC) {
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, argv[1:]...), env)
	}
	code := 126
	if errors.Is(err, unix.ENOENT) {
		code = 127 // its interpreter
	}
	return &wire.Failure{Code: code, Message: fmt.Sprintf("%q cannot be executed: %v", path, err)}
}
