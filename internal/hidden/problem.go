package hidden

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/ui"
)

// Problem adds to an error of a look through a tree what to do about it. Programs in a
// sandbox may have put there what is in the way, so it has to be something that the user
// can do at once.
func Problem(err error) error {
	var slow *mask.SlowError
	var full *mask.FullError
	var crowd *mask.CrowdError
	var file *mask.FileError
	switch {
	case errors.As(err, &slow):
		name, _, _ := strings.Cut(slow.From, ":")
		if filepath.Base(name) == mask.FileName {
			return ui.Hint(err, "shorten the line, or remove the file with %s", ui.Command("rm", filepath.Join(slow.Root, name)))
		}
		return ui.Hint(err, "have fewer and shorter lines")
	case errors.As(err, &full) && full.Most != "":
		return ui.Hint(err, "hide all of it with a line /%s/ in %s, or, if it is not yours, remove it with %s",
			full.Most, filepath.Join(full.Root, mask.FileName), ui.Command("rm -r", filepath.Join(full.Root, full.Most)))
	case errors.As(err, &full):
		return ui.Hint(err, "have less hidden, or remove what is not yours")
	case errors.As(err, &crowd):
		return ui.Hint(err, "start in a directory further down, or remove what is not yours")
	case errors.As(err, &file):
		return ui.Hint(err, "have fewer and shorter lines in it, or remove it with %s", ui.Command("rm", filepath.Join(file.Root, file.File)))
	}
	return err
}
