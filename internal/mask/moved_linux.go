package mask

import (
	"slices"
	"strings"
)

// A copy-on-write view of a tree does not hear that a directory of it was renamed. For a program
// that stands in it, it is still there under its old name, with all that comes into it later.
// So what appears in such a directory has to be hidden under both names.

// moved are directories that were renamed: what they were called before.
type moved map[string][]string

// maxMoved bounds the names that are remembered.
const maxMoved = 1 << 12

// add notes that a directory was renamed.
func (m *moved) add(from, to string) {
	if *m == nil {
		*m = moved{}
	}
	for _, name := range append((*m)[from], from) {
		if len(*m) < maxMoved && len((*m)[to]) < 16 && name != to && !slices.Contains((*m)[to], name) {
			(*m)[to] = append((*m)[to], name)
		}
	}
}

// before are the paths that something may have in such a view besides its own.
func (m moved) before(path string) (all []string) {
	if len(m) == 0 {
		return nil
	}
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		for _, name := range m[path[:i]] {
			all = append(all, name+path[i:])
		}
	}
	return all
}
