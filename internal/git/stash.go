package git

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// A stash and a tag are on no branch, and would end with the sandbox. Both come over under names
// of coffer's own, where they are in nobody's way: refs/coffer/stash/<sandbox>/<id> and
// refs/coffer/tag/<sandbox>/<name>. They stay when the sandbox goes. A stash that is dropped
// inside is dropped here; a tag is not. The same names below refs/coffer/<id>/ say which of
// them are this sandbox's.

// Bounds of what a sandbox has here, and of how many a command names.
const (
	maxStashes = 50
	maxTags    = 100
	maxNamed   = 5
)

// kept are the kinds of such refs.
var kept = []string{"stash/", "tag/"}

// aside is where one of them is for the user: below refs/, which git need not be told.
func (b *Bridge) aside(kind, name string) string {
	return "coffer/" + strings.TrimSuffix(kind, "/") + "/" + b.Name + "/" + name
}

// setAside brings over the stashes and tags that were made inside, and says how they are taken.
func (s *session) setAside(ctx context.Context) error {
	want, err := s.stashes(ctx)
	if err != nil {
		return err
	}
	tags, err := s.newTags(ctx)
	if err != nil {
		return err
	}
	maps.Copy(want, tags)
	fresh, err := s.fetchAside(ctx, want)
	if err != nil {
		return err
	}
	var orders strings.Builder
	for _, name := range fresh {
		kind, short := path.Split(name)
		fmt.Fprintf(&orders, "update %s %s\nupdate refs/%s %s\n", s.own()+name, want[name], s.aside(kind, short), want[name])
	}
	dropped := func(name string) bool { return strings.HasPrefix(name, "stash/") && want[name] == "" }
	for ref := range s.refs {
		if name, ok := strings.CutPrefix(ref, s.own()); ok && dropped(name) {
			fmt.Fprintf(&orders, "delete %s\ndelete refs/%s\n", ref, s.aside("stash/", path.Base(name)))
		}
	}
	if orders.Len() > 0 {
		if _, err := s.Bridge.refs().run(ctx, orders.String(), "update-ref", "--stdin"); err != nil {
			return err
		}
	}
	s.cameBy = slices.DeleteFunc(s.cameBy, func(name string) bool { return dropped(name) || slices.Contains(fresh, name) })
	s.cameBy = append(s.cameBy, fresh...)
	s.sayAside()
	return nil
}

// fetchAside brings over those stashes and tags that are not here yet. It returns the names of
// those that may get refs.
func (s *session) fetchAside(ctx context.Context, want map[string]string) (fresh []string, err error) {
	var fetch []string
	for name, id := range want {
		if s.refs[s.own()+name].id != id {
			fetch = append(fetch, id+":"+landed+name)
		}
	}
	if len(fetch) == 0 {
		return nil, nil
	}
	if _, err := s.Bridge.fetch(ctx, s.o, fetch); err != nil {
		return nil, fmt.Errorf("stashes and tags: %w", err)
	}
	there, err := s.list(ctx, s.Bridge.refs(), "refs/"+s.aside("tag/", ""))
	if err != nil {
		return nil, err
	}
	slices.Sort(fetch)
	for _, line := range fetch {
		id, name, _ := strings.Cut(line, ":"+landed)
		kind, short := path.Split(name)
		ref := "refs/" + s.aside(kind, short)
		if old := there[ref].id; old != "" && old != id && old != s.refs[s.own()+name].id {
			s.note("the tag %s was not brought over: %s is of a sandbox before; delete that with 'git update-ref -d %s'", tagName(short), ref, shellWord(ref))
			continue
		}
		if heavy, err := s.heavyAside(ctx, id); err != nil {
			return nil, err
		} else if heavy {
			s.note("the %s %s was not brought over: it has too many files (%d at most)", strings.TrimSuffix(kind, "/"), tagName(short), maxPaths)
			continue
		}
		fresh = append(fresh, name)
	}
	return fresh, nil
}

// sayAside says how what came over is taken.
func (s *session) sayAside() {
	for i, name := range s.cameBy {
		if i == maxNamed {
			s.once = append(s.once, fmt.Sprintf("%d more stashes and tags were made inside: list them with 'git for-each-ref %s %s'", len(s.cameBy)-i,
				shellWord("refs/"+s.aside("stash/", "")), shellWord("refs/"+s.aside("tag/", ""))))
			break
		}
		kind, way := "tag", "take it"
		if strings.HasPrefix(name, "stash/") {
			kind, way = "stash", "bring it back"
		}
		s.once = append(s.once, fmt.Sprintf("a %s was made inside: %s with '%s'", kind, way, s.take(name)))
	}
}

// take is the command by which the user takes a stash or a tag.
func (b *Bridge) take(name string) string {
	kind, short := path.Split(name)
	if kind == "stash/" {
		return "git stash apply " + shellWord(b.aside(kind, short))
	}
	return "git tag " + shellWord(tagName(short)) + " " + shellWord(b.aside(kind, short))
}

// A tag's name is one word of a ref's, or a tag could be in the way of another that came before.
func tagWord(name string) string { return strings.NewReplacer("%", "%25", "/", "%2F").Replace(name) }
func tagName(word string) string { return strings.NewReplacer("%25", "%", "%2F", "/").Replace(word) }

// stashes are the entries of the stash inside. Only git inside knows them: all but the last are
// in a log.
func (s *session) stashes(ctx context.Context) (map[string]string, error) {
	want := map[string]string{}
	known := false
	for ref := range s.refs {
		known = known || strings.HasPrefix(ref, s.own()+"stash/")
	}
	if !known && !s.hasStash() {
		return want, nil
	}
	out, status, err := s.ask(ctx, s.o, "log", "-g", "--no-show-signature", "--format=%H", fmt.Sprintf("--max-count=%d", maxStashes+1), "refs/stash", "--")
	if err != nil || status != 0 { // there is none
		return want, err
	}
	for _, id := range strings.Fields(out) {
		if len(want) == maxStashes {
			s.note("the sandbox has more than %d stashes, of which the last ones were brought over", maxStashes)
			break
		}
		if validCommit(id) != "" {
			want["stash/"+id[:12]] = id
		}
	}
	return want, nil
}

// hasStash says whether there is a stash inside.
func (b *Bridge) hasStash() bool {
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(b.refPlace("stash"))
	return err == nil || strings.Contains(smallText(root, "packed-refs", maxRefs), " refs/stash\n")
}

// newTags are the tags inside that the host has not. Tags that git inside has packed are those that
// it began with, or were seen before.
func (s *session) newTags(ctx context.Context) (map[string]string, error) {
	tags := map[string]string{}
	root, err := os.OpenRoot(s.private())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	top, seen := s.refPlace("tags"), 0
	_ = fs.WalkDir(root.FS(), top, func(at string, d fs.DirEntry, err error) error {
		if seen++; seen > maxLook {
			return fs.SkipAll
		}
		name, ok := strings.CutPrefix(at, top+"/")
		if err != nil || !ok || !d.Type().IsRegular() || !validTag(name) {
			return nil
		}
		if id := validCommit(smallText(root, at, 100)); id != "" {
			tags["tag/"+tagWord(name)] = id
		}
		return nil
	})
	if len(tags) == 0 {
		return tags, nil
	}
	mine, err := snapshot(ctx, s.Common)
	for _, r := range mine {
		if name, ok := strings.CutPrefix(r.name, "refs/tags/"); ok && tags["tag/"+tagWord(name)] == r.id {
			delete(tags, "tag/"+tagWord(name))
		}
	}
	if s.limitTags(tags) || seen > maxLook {
		s.note("the sandbox has more than %d tags, of which that many were brought over", maxTags)
	}
	return tags, err
}

// limitTags leaves as many tags as there is room for, besides those that are here, and says whether
// there are more.
func (s *session) limitTags(tags map[string]string) (more bool) {
	room := maxTags
	for ref := range s.refs {
		if strings.HasPrefix(ref, s.own()+"tag/") {
			room--
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if s.refs[s.own()+name].id != "" {
			continue
		}
		if room--; room < 0 {
			delete(tags, name)
			more = true
		}
	}
	return more
}

// validTag says whether git takes a name for a tag's.
func validTag(name string) bool {
	if !plainRef(name) || strings.Contains(name, "..") || strings.HasSuffix(name, ".") || len(name) > 80 {
		return false
	}
	return !slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		return part[0] == '.' || strings.HasSuffix(part, ".lock")
	})
}

// heavyAside says whether git would have too much to do with a stash or a tag: a stash has its
// untracked files in a commit of their own.
func (s *session) heavyAside(ctx context.Context, id string) (bool, error) {
	out, err := s.Bridge.refs().text(ctx, "rev-list", "--no-walk", "--parents", id+"^{commit}")
	if code(err) > 0 {
		return false, nil // of no commit, which nothing is checked out of
	}
	if err != nil {
		return false, err
	}
	for _, commit := range strings.Fields(out) {
		if heavy, err := s.heavy(ctx, commit); heavy || err != nil {
			return heavy, err
		}
	}
	return false, nil
}

// A Kept is a stash or a tag of a sandbox's.
type Kept struct{ Sandbox, Kind, Take, Drop string }

// KeptIn lists those in the repository.
func (r *Repository) KeptIn(ctx context.Context) (all []Kept, err error) {
	out, err := r.git().run(ctx, "", "for-each-ref", "--format=%(refname)", "refs/coffer/stash/", "refs/coffer/tag/")
	for ref := range strings.Lines(out) {
		ref = strings.TrimSuffix(ref, "\n")
		if f := strings.SplitN(ref, "/", 5); len(f) == 5 {
			all = append(all, (&Bridge{State: State{Name: f[3]}}).keptOne(f[2]+"/"+f[4]))
		}
	}
	return all, err
}

func (b *Bridge) keptOne(name string) Kept {
	kind, short := path.Split(name)
	return Kept{Sandbox: b.Name, Kind: strings.TrimSuffix(kind, "/"), Take: b.take(name), Drop: "git update-ref -d " + shellWord("refs/"+b.aside(kind, short))}
}

// Kept are the stashes and tags that [Bridge.Forget] has left.
func (b *Bridge) Kept() []Kept { return b.leftAside }

// noteKept notes them, of the sandbox's refs.
func (b *Bridge) noteKept(refs map[string]tip) {
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		name := strings.TrimPrefix(ref, b.own())
		if name != ref && slices.ContainsFunc(kept, func(kind string) bool { return strings.HasPrefix(name, kind) }) {
			b.leftAside = append(b.leftAside, b.keptOne(name))
		}
	}
}
