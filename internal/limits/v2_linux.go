package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// leafName is the child that coffer's own processes move to. It does not begin
// with groupPrefix, so it can never be taken for a sandbox.
const leafName = "coffer.self"

// baseOf is where sandboxes' v2 groups are made: our own group, or the one we
// were in before we moved to the leaf.
func baseOf(own string) string {
	if filepath.Base(own) == leafName {
		return filepath.Dir(own)
	}
	return own
}

// roomMu: two sandboxes started at once by this process must not both move it.
var roomMu sync.Mutex

// makeRoom hands controllers to the children of base. Processes in base are in
// the way of that (the no-internal-processes rule); they move to the leaf if
// all of them are ours, and back again if it was for nothing.
func (s *system) makeRoom(base string, controllers []string) error {
	roomMu.Lock()
	defer roomMu.Unlock()

	have := words(base, "cgroup.subtree_control")
	var missing []string
	for _, c := range controllers {
		if !slices.Contains(have, c) {
			missing = append(missing, "+"+c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var moved []int
	if _, root := groupType(base); !root {
		var err error
		if moved, err = s.moveToLeaf(base); err != nil {
			s.moveBack(base, moved)
			return err
		}
	}
	err := s.write(filepath.Join(base, "cgroup.subtree_control"), strings.Join(missing, " "))
	if err != nil {
		s.moveBack(base, moved)
		return fmt.Errorf("hand controllers to the children of %s: %w", base, err)
	}
	return nil
}

// moveToLeaf empties base. Our children may fork meanwhile, hence the rounds.
func (s *system) moveToLeaf(base string) (moved []int, err error) {
	leaf := filepath.Join(base, leafName)
	for range 10 {
		list, err := pids(base)
		if err != nil || len(list) == 0 {
			return moved, err
		}
		if err := s.alone(base); err != nil {
			return moved, err
		}
		if err := s.mkdir(leaf); err != nil && !errors.Is(err, fs.ErrExist) {
			return moved, fmt.Errorf("make a leaf for coffer itself: %w", err)
		}
		for _, pid := range list {
			err := s.write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(pid))
			if errors.Is(err, unix.ESRCH) {
				continue
			}
			if err != nil {
				return moved, fmt.Errorf("move process %d to %s: %w", pid, leaf, err)
			}
			moved = append(moved, pid)
		}
	}
	return moved, fmt.Errorf("new processes keep appearing in cgroup %s", base)
}

// moveBack is best effort: it tidies up after an error that is reported.
func (s *system) moveBack(base string, moved []int) {
	for _, pid := range moved {
		_ = s.write(filepath.Join(base, "cgroup.procs"), strconv.Itoa(pid))
	}
	if len(moved) > 0 {
		_ = s.rmdir(filepath.Join(base, leafName))
	}
}
