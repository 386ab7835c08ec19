package git

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
)

// overlookPatience is how long a start waits for git inside.
const overlookPatience = 10 * time.Second

// Overlook has git inside pass over files of the tree that are hidden there: those that it
// tracks count as unchanged, others as ignored. Else every 'git add -A' and 'git commit -a'
// would stumble over what cannot be read. No program may run inside yet.
func (b *Bridge) Overlook(ctx context.Context, o wire.Opener, hidden []string) error {
	tracked, other := b.split(hidden)
	if err := b.private().exclude(other); err != nil {
		return err
	}
	if len(tracked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, overlookPatience)
	defer cancel()
	f, words := far{&b.State, o}, &limited{left: maxWords, drop: true}
	// The tree itself need not be there yet: it is about the index.
	e := f.program(rootfs.Empty, "update-index", "-z", "--skip-worktree", "--stdin")
	status, err := f.run(ctx, e, strings.NewReader(strings.Join(tracked, "\x00")+"\x00"), words, words)
	if err == nil && status != 0 {
		err = fmt.Errorf("git inside: status %d: %s", status, strings.TrimSpace(words.String()))
	}
	return err
}

// split divides hidden files into those that git tracks, and patterns for the others.
func (s *State) split(hidden []string) (tracked, other []string) {
	names, _ := rootfs.Tracked(filepath.Join(s.Admin, "index")) // without an index, git tracks none
	for _, path := range hidden {
		name, err := filepath.Rel(s.Tree, path)
		if err != nil || !filepath.IsLocal(name) || name == "." {
			continue // of another tree
		}
		at, found := slices.BinarySearch(names, name)
		if found {
			tracked = append(tracked, name)
			continue
		}
		for ; at < len(names) && names[at] < name+"0"; at++ { // '0' comes after '/'
			if strings.HasPrefix(names[at], name+"/") {
				tracked = append(tracked, names[at])
			}
		}
		if !strings.ContainsAny(name, "\n\r") { // which no pattern can be about
			other = append(other, "/"+literal(name))
		}
	}
	return tracked, other
}

// literal is the pattern that matches a path and nothing else.
func literal(path string) string {
	path = escapeGlob(path)
	if trimmed := strings.TrimRight(path, " \t"); trimmed != path {
		path = trimmed + strings.NewReplacer(" ", `\ `, "\t", "\\\t").Replace(path[len(trimmed):])
	}
	return path
}
