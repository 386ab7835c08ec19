package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// A program that meets a masked file says "permission denied", and nothing about masks. So
// the end of one that failed names what is hidden.

// failed says whether a program ended badly, and not because the user interrupted it.
func failed(exit wire.Exit, err error) bool {
	return err == nil && exit.Status() != 0 && exit.Signal != unix.SIGINT
}

// noteHidden names what is hidden in a sandbox of this process.
func noteHidden(super *supervisor.Supervisor) {
	if text := hiddenHere(super.Sandbox.Workspace.Path, super.Hidden()); text != "" {
		attach.Note(text + "; see 'coffer masks'")
	}
}

// tellHidden names what is hidden in a sandbox that stays, once.
func tellHidden(sb *sandbox.Sandbox, line *supervisor.Line) {
	told := filepath.Join(sb.Dir(), "hidden.told")
	if _, err := os.Lstat(told); err == nil {
		return
	}
	list, err := supervisor.Masked(line)
	text := hiddenHere(sb.Workspace.Path, list)
	if err != nil || text == "" || os.WriteFile(told, nil, 0o600) != nil {
		return
	}
	attach.Note(fmt.Sprintf("%s; see 'coffer masks -m %s'", text, sb.Name))
}

// hiddenHere names what is hidden in a workspace, "" if nothing is.
func hiddenHere(workspace string, list []supervisor.Hidden) string {
	var names []string
	for _, h := range list {
		if name, ok := strings.CutPrefix(h.Path, workspace+"/"); ok && workspace != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "hidden here: " + ui.Few(names)
}
