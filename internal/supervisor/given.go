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

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// maxGiven bounds a file that is copied into a sandbox.
const maxGiven = 4 << 20

// showMounts are the places of the host that the sandbox is to see. Files of which it gets
// copies are copied now, into its folder, where it does not reach; dir is that folder.
func showMounts(sb *sandbox.Sandbox, dir string) (list []rootfs.Mount, err error) {
	for i, m := range sb.Mounts {
		if m.Copy {
			copied := filepath.Join(dir, "given", strconv.Itoa(i))
			err := copyGiven(m.Source, copied)
			if errors.Is(err, fs.ErrNotExist) {
				continue // the user has it no more
			}
			if err != nil {
				return nil, fmt.Errorf("show %s inside: %w", m.Source, err)
			}
			m.Source = copied
		}
		if w := sb.Workspace.Path; w != "" && rootfs.Within(m.Target, w) && sb.Workspace.Mode != sandbox.WorkspaceNone {
			if err := sandbox.CheckMountPoint(m, w); err != nil {
				return nil, err
			}
		}
		list = append(list, rootfs.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return list, nil
}

// copyGiven copies a file of the user's.
func copyGiven(from, to string) error {
	f, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("it is no longer a file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxGiven+1))
	if err == nil && len(data) > maxGiven {
		err = fmt.Errorf("it is larger than %d bytes", maxGiven)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	_ = os.Remove(to) // one that a program has open stays what it was
	return os.WriteFile(to, data, 0o600)
}

func caches(sb *sandbox.Sandbox) (list []rootfs.Cache) {
	for _, c := range sb.Caches {
		list = append(list, rootfs.Cache(c))
	}
	return list
}
