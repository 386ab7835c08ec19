package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/hint"
)

// unseen adds to the error about a program that is not in the sandbox where it is outside.
// Scripts in the directory above, and programs in ~/bin, are what people miss first.
func unseen(err error, argv []string) error {
	var failure *wire.Failure
	if !errors.As(err, &failure) || !strings.HasSuffix(failure.Message, "command not found in the sandbox") || len(argv) == 0 {
		return err
	}
	path, missing := exec.LookPath(argv[0])
	if missing != nil {
		return err
	}
	if path, missing = filepath.Abs(path); missing != nil {
		return err
	}
	if info, missing := os.Stat(path); missing != nil || info.IsDir() {
		return err
	}
	if strings.Contains(argv[0], "/") {
		return hint.Wrap(err, "%s is outside of what the sandbox sees; start coffer in a directory above it, or name that in [mounts] of your config", path)
	}
	return hint.Wrap(err, "yours is %s, which the sandbox does not see; name its directory in [mounts] of your config, or try 'coffer jail -- %s'", path, argv[0])
}
