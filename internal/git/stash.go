package git

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
)

// A stash and a tag are on no branch, and would end with the sandbox. Both come over under
// names of coffer's own, where they are in nobody's way: refs/coffer/stash/<sandbox>/<id> and
// refs/coffer/tag/<sandbox>/<name>. They stay when the sandbox goes. A stash that is dropped
// inside is dropped here; a tag is not. The same names below refs/coffer/<id>/ say which of
// them are this sandbox's.

// Bounds of what a sandbox has here, and of how many a note names.
const (
	maxStashes = 50
	maxTags    = 100
	maxNamed   = 5
)

// kept are the kinds of such refs.
var kept = []string{"stash/", "tag/"}

// setAside brings over the stashes and tags that were made inside, and says how to take them.
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
	for ref := range s.now {
		if name, ok := strings.CutPrefix(ref, s.own()); ok && dropped(name) {
			fmt.Fprintf(&orders, "delete %s\ndelete refs/%s\n", ref, s.aside("stash/", path.Base(name)))
		}
	}
	if orders.Len() > 0 {
		if _, err := s.refs().run(ctx, orders.String(), "update-ref", "--stdin"); err != nil {
			return err
		}
	}
	s.cameBy = slices.DeleteFunc(s.cameBy, func(name string) bool { return dropped(name) || slices.Contains(fresh, name) })
	s.cameBy = append(s.cameBy, fresh...)
	s.sayAside()
	return nil
}

// fetchAside fetches those stashes and tags that are not here yet. It returns the names of
// those that may get refs.
func (s *session) fetchAside(ctx context.Context, want map[string]string) (fresh []string, err error) {
	var specs []string
	for name, id := range want {
		if s.now[s.own()+name].ID != id {
			specs, fresh = append(specs, id+":"+landed+name), append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	if _, err := s.Bridge.fetch(ctx, s.far, specs); err != nil {
		return nil, fmt.Errorf("stashes and tags: %w", err)
	}
	list, err := s.refs().list(ctx, "refs/"+s.aside("tag/", ""))
	if err != nil {
		return nil, err
	}
	there := byName(list)
	slices.Sort(fresh)
	fresh = slices.DeleteFunc(fresh, func(name string) bool {
		kind, short := path.Split(name)
		ref, id := "refs/"+s.aside(kind, short), want[name]
		if old := there[ref].ID; old != "" && old != id && old != s.now[s.own()+name].ID {
			s.note("the tag %s was not brought over: %s is of a sandbox before; delete that with %s", tagName(short), ref, ui.Command("git update-ref -d", ref))
			return true
		}
		why, wrong := s.unfitAside(ctx, id)
		if wrong != nil {
			err = wrong
		} else if why != "" {
			s.note("the %s %s was not brought over: %s", strings.TrimSuffix(kind, "/"), tagName(short), why)
		}
		return why != ""
	})
	return fresh, err
}

// sayAside says how to take what came over.
func (s *session) sayAside() {
	for i, name := range s.cameBy {
		if i == maxNamed {
			s.news("%d more stashes and tags were made inside: list them with %s", len(s.cameBy)-i,
				ui.Command("git for-each-ref", "refs/"+s.aside("stash/", ""), "refs/"+s.aside("tag/", "")))
			break
		}
		kind, way := "tag", "take it"
		if strings.HasPrefix(name, "stash/") {
			kind, way = "stash", "bring it back"
		}
		s.news("a %s was made inside: %s with %s", kind, way, s.keptOne(name).Take)
	}
}

// A tag's name is one word of a ref's: else it could be in the way of one that came before.
func tagWord(name string) string { return strings.NewReplacer("%", "%25", "/", "%2F").Replace(name) }
func tagName(word string) string { return strings.NewReplacer("%25", "%", "%2F", "/").Replace(word) }

// stashes are the entries of the stash inside. Only git inside knows them: all but the last
// are in a log.
func (s *session) stashes(ctx context.Context) (map[string]string, error) {
	want := map[string]string{}
	known := false
	for ref := range s.now {
		known = known || strings.HasPrefix(ref, s.own()+"stash/")
	}
	if !known && !s.private().hasStash() {
		return want, nil
	}
	out, status, err := s.far.git(ctx, "log", "-g", "--no-show-signature", "--format=%H", fmt.Sprintf("--max-count=%d", maxStashes+1), "refs/stash", "--")
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

// newTags are the tags inside that the host does not have, as far as there is room for them.
func (s *session) newTags(ctx context.Context) (map[string]string, error) {
	tags := map[string]string{}
	inside, more := s.private().tags()
	if len(inside) == 0 {
		return tags, nil
	}
	list, err := s.refs().list(ctx, "refs/tags/")
	if err != nil {
		return nil, err
	}
	mine := byName(list)
	room := maxTags
	for ref := range s.now {
		if strings.HasPrefix(ref, s.own()+"tag/") {
			room--
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inside)) {
		word := "tag/" + tagWord(name)
		if mine["refs/tags/"+name].ID == inside[name] {
			continue
		}
		if s.now[s.own()+word].ID == "" {
			if room--; room < 0 {
				more = true
				continue
			}
		}
		tags[word] = inside[name]
	}
	if more {
		s.note("the sandbox has more than %d tags, of which that many were brought over", maxTags)
	}
	return tags, nil
}

// unfitAside is unfit for a stash or a tag. A stash has its untracked files in a commit of their own.
func (s *session) unfitAside(ctx context.Context, id string) (string, error) {
	out, err := s.refs().text(ctx, "rev-list", "--no-walk", "--parents", id+"^{commit}")
	if code(err) > 0 {
		if _, err := s.refs().text(ctx, "rev-parse", "-q", "--verify", id+"^{tree}"); err == nil {
			return "it is of a directory, and of no commit", nil
		}
		return "", nil // nothing is checked out of it
	}
	if err != nil {
		return "", err
	}
	for _, commit := range strings.Fields(out) {
		if why, err := s.unfit(ctx, commit); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// A Kept is a stash or a tag of a sandbox's, and the commands that take and delete it.
type Kept struct{ Sandbox, Kind, Take, Drop string }

// KeptIn lists those in the repository.
func (r *Repository) KeptIn(ctx context.Context) (all []Kept, err error) {
	refs, err := r.git().list(ctx, "refs/coffer/stash/", "refs/coffer/tag/")
	for _, ref := range refs {
		if f := strings.SplitN(ref.Name, "/", 5); len(f) == 5 {
			all = append(all, (&State{Name: f[3]}).keptOne(f[2]+"/"+f[4]))
		}
	}
	return all, err
}

func (s *State) keptOne(name string) Kept {
	kind, short := path.Split(name)
	at := s.aside(kind, short)
	k := Kept{Sandbox: s.Name, Kind: strings.TrimSuffix(kind, "/"), Drop: ui.Command("git update-ref -d", "refs/"+at)}
	if k.Take = ui.Command("git tag", tagName(short), at); kind == "stash/" {
		k.Take = ui.Command("git stash apply", at)
	}
	return k
}
