package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
)

// overlook adds lines to the excludes, each once. They are the sandbox's own, so it is done
// inside; and by the shell alone, since everybody waits for it.
const overlook = `dir=$GIT_DIR/info; known='
'
[ -d "$dir" ] || mkdir "$dir" || exit
[ ! -f "$dir/exclude" ] || while IFS= read -r line || [ "$line" ]; do known="$known$line
"; done <"$dir/exclude"
while IFS= read -r line; do
	case $known in
	*"
$line
"*) ;;
	*) printf '%s\n' "$line" ;;
	esac
done >>"$dir/exclude"`

// overlookPatience is how long a start waits for that.
const overlookPatience = 10 * time.Second

// Overlook has git inside pass over files of the tree that are hidden there: those that it
// has count as unchanged, others as ignored. Else every 'git add -A' and 'git commit -a'
// would stumble over what cannot be read. No program may run inside yet.
func (b *Bridge) Overlook(ctx context.Context, o wire.Opener, hidden []string) error {
	tracked, other := b.split(hidden)
	if len(tracked) > 0 {
		in := strings.Join(tracked, "\x00") + "\x00"
		// The tree itself need not be there yet: it is about the index.
		e := b.programAt(rootfs.Empty, "update-index", "-z", "--skip-worktree", "--stdin")
		if err := b.feed(ctx, o, e, in); err != nil {
			return err
		}
	}
	if len(other) == 0 {
		return nil
	}
	e := b.programAt(rootfs.Empty)
	e.Argv = [][]byte{[]byte("sh"), []byte("-c"), []byte(overlook)}
	return b.feed(ctx, o, e, strings.Join(other, "\n")+"\n")
}

// split tells the hidden files that git has from the others, for which it makes patterns.
func (b *Bridge) split(hidden []string) (tracked, other []string) {
	names, _ := rootfs.Tracked(filepath.Join(b.Admin, "index")) // without an index git has none
	for _, path := range hidden {
		name, err := filepath.Rel(b.Tree, path)
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

// literal is the pattern that means a path and nothing else.
func literal(path string) string {
	path = escapeGlob(path)
	if trimmed := strings.TrimRight(path, " \t"); trimmed != path {
		path = trimmed + strings.NewReplacer(" ", `\ `, "\t", "\\\t").Replace(path[len(trimmed):])
	}
	return path
}

// feed runs a program inside with an input, for its success alone.
func (b *Bridge) feed(ctx context.Context, o wire.Opener, e wire.Exec, in string) error {
	ctx, cancel := context.WithTimeout(ctx, overlookPatience)
	defer cancel()
	words := &limited{left: maxWords, drop: true}
	status, err := run(ctx, o, e, strings.NewReader(in), words, words)
	switch {
	case ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	case err == nil && status != 0:
		return fmt.Errorf("%s inside: status %d: %s", e.Argv[0], status, strings.TrimSpace(words.String()))
	}
	return err
}
