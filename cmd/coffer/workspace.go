package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
)

// workspaceHere is the workspace for the current directory: the top of its repository, or the directory itself.
func workspaceHere(mode string, force bool) (sandbox.Workspace, error) {
	switch mode {
	case sandbox.WorkspaceNone:
		return sandbox.Workspace{Mode: mode}, nil
	case sandbox.WorkspaceDirect, sandbox.WorkspaceCOW:
	default:
		return sandbox.Workspace{}, usagef("there is no workspace mode %q: want direct, worktree, cow or none", mode)
	}
	here, err := currentDir()
	if err != nil {
		return sandbox.Workspace{}, err
	}
	dir, why := workspaceOf(here, mode)
	if err := refuseWorkspace(dir, force); err != nil {
		return sandbox.Workspace{}, err
	}
	if err := guardWord(sandbox.Workspace{Path: dir, Mode: mode}, nil); err != nil {
		return sandbox.Workspace{}, err
	}
	if why != "" {
		fmt.Fprintf(os.Stderr, "coffer: there is no git inside: the repository %s\n", terminal.Escape(why))
	}
	return sandbox.Workspace{Path: dir, Mode: mode}, nil
}

// workspaceOf chooses the top of the repository of a directory, or the directory and says why.
func workspaceOf(here, mode string) (dir, why string) {
	top := repositoryOf(here)
	if top == "" || top == here {
		return here, ""
	}
	store, err := openStore()
	if err == nil {
		err = guardPlanted(store, top)
	}
	if err == nil {
		err = guardWord(sandbox.Workspace{Path: top, Mode: mode}, nil)
	}
	if err == nil {
		_, err = rootfs.FindRepository(top)
	}
	if bad := unsuitable(top, sandbox.Me().Home); bad != "" {
		return here, fmt.Sprintf("%s cannot be the workspace: %s", top, bad)
	}
	if err != nil {
		return here, fmt.Sprintf("%s cannot be the workspace: %v", top, err)
	}
	return top, ""
}

func refuseWorkspace(here string, force bool) error {
	why := unsuitable(here, sandbox.Me().Home)
	if why == "" || force && !never(here) {
		return nil
	}
	fix := "change to a project's directory, or insist with --force"
	if guardWord(sandbox.Workspace{Path: here, Mode: sandbox.WorkspaceDirect}, nil) != nil {
		fix += " --workspace cow"
	}
	if never(here) {
		fix = "change to a project's directory"
	}
	return ui.Error(fmt.Sprintf("%s cannot be a workspace: %s", here, why), fix)
}

// guardWord refuses a sandbox that could write the user's own settings, or his trust store.
func guardWord(ws sandbox.Workspace, mounts []sandbox.Mount) error {
	places := wordPlaces()
	if ws.Mode == sandbox.WorkspaceDirect || ws.Mode == sandbox.WorkspaceTree && ws.Path != "" {
		if file := places.Holds(ws.Path); file != "" {
			return ui.Error(fmt.Sprintf("programs that write to %s could change %s, which says what sandboxes may do", ws.Path, file),
				"use --workspace cow: changes wait until you have seen them")
		}
	}
	for _, m := range mounts {
		if file := places.Holds(m.Source); file != "" && !m.ReadOnly {
			return ui.Error(fmt.Sprintf("programs that write to the mount %s could change %s, which says what sandboxes may do", m.Source, file),
				"mount it read-only, in a new sandbox")
		}
	}
	return nil
}

// guardApply refuses to apply changes of the user's own settings unless they are named.
func guardApply(ctx context.Context, sb *sandbox.Sandbox, paths []string) error {
	places := wordPlaces()
	if places.Holds(sb.Workspace.Path) == "" {
		return nil
	}
	list, err := changes.List(ctx, sb.Workspace.Path, sb.Upper())
	if err != nil {
		return none(err)
	}
	var named []string
	for _, p := range paths {
		named = append(named, filepath.Clean(p))
	}
	for _, c := range list {
		asked := len(named) == 0 || slices.ContainsFunc(named, func(p string) bool { return p == "." || strings.HasPrefix(c.Path, p+"/") })
		if asked && !slices.Contains(named, c.Path) && places.Touches(filepath.Join(sb.Workspace.Path, c.Path)) {
			path := changes.Quote(c.Path)
			return ui.Error(fmt.Sprintf("nothing applied: %s is among what says what sandboxes may do", path),
				fmt.Sprintf("read it with %s; then apply it by its name, or other paths by theirs", ui.Command("coffer diff", sb.Name, c.Path)))
		}
	}
	return nil
}

// System directories are no workspaces: with all below them, or only themselves.
var (
	systemTrees = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"}
	systemRoots = []string{"/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp"}
)

// never reports whether a place is no workspace even with --force: the sandbox has its own, or would not start.
func never(dir string) bool {
	return slices.Contains([]string{"/", "/dev", "/proc", "/run", "/sys", "/var/tmp"}, dir) || safepath.Within(dir, "/proc") || safepath.Within(dir, "/sys")
}

// unsuitable says why a directory should not be handed to a program, or nothing.
func unsuitable(dir, home string) string {
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	switch {
	case dir == "/":
		return "it is the whole machine"
	case dir == home:
		return "it is your home, with all your keys"
	case safepath.Within(home, dir):
		return "your home is in it"
	case slices.Contains(systemRoots, dir):
		return "it belongs to the system"
	}
	for _, s := range systemTrees {
		if dir == s || strings.HasPrefix(dir, s+"/") {
			return "it belongs to the system"
		}
	}
	return ""
}

// writtenInside are directories in which sandboxes may write, or may have: also here and the repositories here.
func writtenInside() (dirs []string) {
	if here, err := syscall.Getwd(); err == nil { // as the kernel has it, without links
		home := sandbox.Me().Home
		// No workspace is a whole home.
		for dir := here; dir != home && !safepath.Within(home, dir); dir = filepath.Dir(dir) {
			if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || dir == here {
				dirs = append(dirs, dir)
			}
			if dir == "/" {
				break
			}
		}
	}
	if dir, err := sandbox.DefaultDir(); err == nil {
		dirs = append(dirs, dir)
	}
	for _, sb := range allSandboxes() {
		if sb.Workspace.Path != "" {
			dirs = append(dirs, sb.Workspace.Path)
		}
		for _, m := range sb.Mounts {
			if !m.ReadOnly {
				dirs = append(dirs, m.Source)
			}
		}
	}
	return dirs
}
