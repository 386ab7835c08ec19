package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// showMounts are the places of the host that the sandbox is to see. Files and directories of
// which it gets copies are copied now, into its folder, where it does not reach; dir is that folder.
func showMounts(sb *sandbox.Sandbox, dir string) (list []rootfs.Mount, err error) {
	for i, m := range sb.Mounts {
		if _, ok := Laid(&sb.Record, m); ok {
			continue // see layGiven
		}
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
		if w := sb.Workspace.Path; w != "" && safepath.Within(m.Target, w) && sb.Workspace.Mode != sandbox.WorkspaceNone {
			if err := sandbox.CheckMountPoint(m, w); err != nil {
				return nil, err
			}
		}
		list = append(list, rootfs.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return list, nil
}

func caches(sb *sandbox.Sandbox) (list []rootfs.Cache) {
	for _, c := range sb.Caches {
		list = append(list, rootfs.Cache(c))
	}
	return list
}
