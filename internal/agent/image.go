package agent

import (
	"fmt"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/ui"
)

// An Image is what a sandbox may have its tools from, instead of this machine.
type Image struct {
	Name string
	// Look finds a program by the image's PATH.
	Look func(name string) (path string, ok bool)
}

// LocateIn finds an agent for a sandbox with the tools of an image: the image's own, else one of
// the tool store, which must find there what runs it. What the user has installed was made for
// this machine's libraries.
func (a *Agent) LocateIn(h Host, i Image) (*Place, error) {
	if path, ok := i.Look(a.Command); ok {
		return &Place{Program: path}, nil
	}
	file := h.tool(a)
	_, node := i.Look("node")
	switch there := executable(file); {
	case !there && (a.Package == "" || !node):
		return nil, ui.Error(fmt.Sprintf("the image %s has no %s, nor Node.js to run one from npm with", i.Name, a.Command), "choose an image that has it")
	case !there:
		return nil, fmt.Errorf("%s %w", a.Name, ErrNotHere)
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, err
	}
	if !node && interpreter(real) == "node" {
		return nil, ui.Error(fmt.Sprintf("%s needs Node.js, which the image %s does not have", a.Name, i.Name), "choose an image that has it, such as node:22")
	}
	return &Place{Program: file, Path: []string{filepath.Dir(file)}, Version: packageVersion(real), Own: true, Show: []string{filepath.Join(h.Tools, a.Name)}}, nil
}
