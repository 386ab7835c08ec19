package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// What is copied into a sandbox at each of its starts is bounded: one file, a directory
// with all that is in it, and how many files those are.
const (
	maxGiven     = 4 << 20
	maxGivenTree = 32 << 20
	maxGivenMany = 4000
)

// showMounts are the places of the host that the sandbox is to see. Files and directories of
// which it gets copies are copied now, into its folder dir, where it does not reach.
func showMounts(sb *sandbox.Sandbox, dir string) (list []rootfs.Mount, err error) {
	for i, m := range sb.Mounts {
		if _, ok := Laid(&sb.Record, m); ok {
			continue // see layGiven
		}
		if m.Copy {
			copied := filepath.Join(dir, "given", strconv.Itoa(i))
			err := copyGiven(m.Source, copied)
			if errors.Is(err, fs.ErrNotExist) {
				continue // the user has removed it
			}
			if err != nil {
				return nil, fmt.Errorf("show %s inside: %w", m.Source, err)
			}
			m.Source = copied
		}
		if w := sb.Workspace.Path; w != "" && safepath.Within(m.Target, w) && sb.Workspace.Mode != sandbox.WorkspaceNone {
			if err := sandbox.CheckMountPoint(m, w); err != nil {
				return nil, err
			}
		}
		list = append(list, rootfs.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return list, nil
}

// Laid says whether a file of the user's is laid into the sandbox's home, to be written
// there, and as what: an agent that has its settings in it rewrites them. All others are
// shown by mounts, which nobody inside can change.
func Laid(r *sandbox.Record, m sandbox.Mount) (name string, ok bool) {
	home := sandbox.Me().Home
	if !m.Copy || !safepath.Within(m.Target, home) {
		return "", false
	}
	if w := r.Workspace.Path; r.Workspace.Mode != sandbox.WorkspaceNone && w != "" && (m.Target == w || safepath.Within(m.Target, w)) {
		return "", false // it is the user's own file that is there
	}
	name, err := filepath.Rel(home, m.Target)
	return name, err == nil && agent.Rewrites(name)
}

// layGiven lays files of the user's into the home of a machine that has booted: the home
// has its owner by then, and no program runs yet.
func layGiven(sb *sandbox.Sandbox) error {
	for _, m := range sb.Mounts {
		if name, ok := Laid(&sb.Record, m); ok {
			if err := layOne(sb, m.Source, name); err != nil {
				return fmt.Errorf("show %s inside: %w", m.Source, err)
			}
		}
	}
	return nil
}

// layOne lays one. What it was the last time is kept in the sandbox's folder, to tell what
// the user has changed from what programs have.
func layOne(sb *sandbox.Sandbox, source, name string) error {
	kept := filepath.Join(sb.Dir(), "laid", name)
	was, err := os.ReadFile(kept)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var is []byte // nil if the user has removed it
	err = copyGiven(source, kept+".new")
	if err == nil {
		is, err = os.ReadFile(kept + ".new")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	home, err := agent.OpenHome(sb.Home())
	if err != nil {
		return err
	}
	defer home.Close()
	if err := home.Lay(name, was, is); err != nil {
		return err
	}
	if is != nil {
		return os.Rename(kept+".new", kept)
	}
	if err := os.Remove(kept); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// copyGiven copies a file or a directory of the user's. Where it leads was settled when
// the user agreed to it; a link that is there now is not followed.
func copyGiven(from, to string) error {
	f, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	// What a program has open stays what it was.
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	switch {
	case info.Mode().IsRegular():
		_, err = copyFile(f, to, maxGiven)
		return err
	case info.IsDir():
		return copyTree(f, to)
	}
	return errors.New("it is neither a file nor a directory any more")
}

// copyFile copies an open regular file, of a size that there is room for.
func copyFile(f *os.File, to string, room int64) (n int64, err error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, min(maxGiven, room)+1))
	switch n = int64(len(data)); {
	case err != nil:
		return n, err
	case n > maxGiven:
		return n, fmt.Errorf("%s is larger than %d MB", info.Name(), maxGiven>>20)
	case n > room:
		return n, fmt.Errorf("all that is in it is larger than %d MB", maxGivenTree>>20)
	}
	// It may be a program.
	return n, os.WriteFile(to, data, 0o600|info.Mode().Perm()&0o100)
}

// copyTree copies an open directory. Links in it stay links: inside, they lead to what is inside.
// What is neither is left out.
func copyTree(dir *os.File, to string) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return err
	}
	defer root.Close()
	room, many := int64(maxGivenTree), maxGivenMany
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if many--; many < 0 {
			return fmt.Errorf("there are more than %d files in it", maxGivenMany)
		}
		at := filepath.Join(to, filepath.FromSlash(name))
		switch {
		case d.IsDir():
			return os.Mkdir(at, 0o700)
		case d.Type() == fs.ModeSymlink:
			link, err := root.Readlink(name)
			if err == nil {
				err = os.Symlink(link, at)
			}
			return err
		case !d.Type().IsRegular():
			return nil
		}
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := copyFile(f, at, room)
		room -= n
		return err
	})
}
