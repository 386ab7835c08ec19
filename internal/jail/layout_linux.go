package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A layout is where on this machine the policy's words lead. Making one changes nothing
// but that an agent's directories are made if they are missing.
type layout struct {
	context string
	home    string
	write   []string       // what can be written to
	lock    []string       // what of it cannot
	reserve []rootfs.Place // what of it must not be made: names that are taken while the jail lasts
	seed    []rootfs.Place // the same, where an empty one can stay
	silent  []string       // names of these that are read as if they were empty files
	closed  bool           // git's directory is among what cannot
	gaps    []Gap          // what of it cannot be protected
	read    []string       // what a private jail shows besides the system
	notes   []string

	asked []string // places that the user opened by name
}

func (l *layout) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// layout finds out about everything that the policy names. program is what shall run.
func (p *Policy) layout(program string) (*layout, error) {
	l := &layout{home: p.Home}
	var err error
	if l.context, err = Resolve(p.Context); err != nil {
		return nil, err
	}
	if err := CheckContext(l.context, p.Home); err != nil {
		return nil, err
	}
	l.write = []string{l.context}
	for _, w := range p.Write {
		if err := l.open(w); err != nil {
			return nil, err
		}
	}
	for _, r := range p.Read {
		real, err := Resolve(r)
		if err != nil {
			return nil, fmt.Errorf("--read: %w", err)
		}
		l.read = append(l.read, real)
	}
	if err := l.git(); err != nil {
		return nil, err
	}
	l.settings(program)
	if p.Agent != nil {
		if err := l.agent(p); err != nil {
			return nil, err
		}
	}
	l.read = append(l.read, programPlaces(program, p.Home)...)
	return l, nil
}

// open makes a place writable that the user named.
func (l *layout) open(path string) error {
	real, err := Resolve(path)
	if err != nil {
		return err
	}
	if why := tooMuch(real, l.home); why != "" {
		return ui.Error(fmt.Sprintf("%s cannot be opened for writing: %s", real, why), "name the directory in it that is needed")
	}
	l.asked = append(l.asked, real)
	l.write = append(l.write, real)
	return nil
}

// protect closes a place in one that can be written to.
func (l *layout) protect(root string, place rootfs.Place, missing *[]rootfs.Place) {
	for _, open := range l.asked {
		if place.Path == open || safepath.Within(place.Path, open) {
			return
		}
	}
	path := root
	for name := range strings.SplitSeq(strings.TrimPrefix(place.Path, root+"/"), "/") {
		path = filepath.Join(path, name)
		info, err := os.Lstat(path)
		switch {
		case os.IsNotExist(err):
			if missing != nil {
				if path != place.Path {
					place = rootfs.Place{Path: path}
				}
				*missing = append(*missing, place)
			}
			return
		case err == nil && path == place.Path && missing == nil: // it stays what it is, also a link
		case err != nil || info.Mode()&os.ModeSymlink != 0:
			l.gaps = append(l.gaps, Gap{What: path + " is a symbolic link, which can be replaced", Needs: "a real file or directory"})
			return
		}
		here := rootfs.Place{Path: path}
		if path == place.Path {
			here = place
		}
		if missing != nil && missing != &l.seed && reserved(here, info) {
			l.reserve = append(l.reserve, here)
			return
		}
	}
	l.lock = append(l.lock, path)
}

const onlyRead = "git can only read the repository here: commit outside, or use 'coffer run', of which commits come out on a branch"

// git closes what belongs to the repository in the context, all of it: git on the outside
// follows links in its directory almost everywhere, and reads its config there.
func (l *layout) git() error {
	git := filepath.Join(l.context, ".git")
	repo, err := rootfs.FindRepository(l.context)
	switch {
	case errors.Is(err, rootfs.ErrStranger):
		l.note("%v; it stays read-only", err)
		l.protect(l.context, rootfs.Place{Path: git}, nil)
		return nil
	case err != nil:
		return err
	}
	if info, err := os.Lstat(git); repo.Own == "" || err == nil && reserved(rootfs.Place{Path: git}, info) {
		if above := rootfs.RepositoryAbove(l.context); above != "" {
			l.note("the repository of %s stays read-only, because it is above %s", above, l.context)
			links, err := rootfs.Submodules(above, rootfs.IndexOf(above))
			if err != nil {
				l.gaps = append(l.gaps, Gap{What: "submodules of the repository above can be changed: " + err.Error(), Needs: "a repository that is understood"})
			}
			for _, path := range links {
				if safepath.Within(path, l.context) {
					l.protect(l.context, rootfs.Place{Path: path}, &l.reserve)
				}
			}
		}
		l.protect(l.context, rootfs.Place{Path: git}, &l.reserve)
		return nil
	}
	references, err := repo.References(l.context, l.home)
	if err != nil {
		l.gaps = append(l.gaps, Gap{What: "what git's configuration refers to can be changed: " + err.Error(), Needs: "a repository that is understood"})
	}
	for _, path := range references {
		l.protect(l.context, rootfs.Place{Path: path}, &l.reserve)
	}
	l.read = append(l.read, repo.Own, repo.Common)
	for _, path := range []string{git, repo.Own, repo.Common} {
		if slices.ContainsFunc(l.asked, func(open string) bool { return safepath.Covers(path, open) }) {
			l.gaps = append(l.gaps, Gap{What: "what git reads and runs outside can be changed in " + path, Needs: "a start without that --write"})
		}
		if within(path, l.write) && !slices.Contains(l.asked, path) {
			l.lock = append(l.lock, path)
		}
	}
	if l.closed = slices.Contains(l.lock, repo.Own); !within(repo.Own, l.write) {
		l.note("%s", onlyRead)
	}
	return nil
}

// What other programs, on the outside, would take orders from.
var (
	// Programs that do not start if one of these is there and cannot be read.
	readAtStart = map[string][]string{"opencode": {"opencode.json", "opencode.jsonc"}, "crush": {"crush.json", ".crush.json"}}
	// Files that count only if something outside leads to them already: a context
	// may be where somebody keeps their start-up files.
	startup = []string{
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc",
		".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".config/fish/config.fish",
		".gitconfig", ".vimrc", ".emacs", ".emacs.d", ".dir-locals.el", ".tmux.conf", ".ssh",
		".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc",
	}
)

// settingNames are the names of settings that are taken in a context. An empty directory keeps them
// from being made; whoever looks for a file there finds none that can be read, copies of the tree are
// made as ever, and git does not list it.
func settingNames() (names []string) {
	for _, s := range mask.Settings {
		if s.Taken {
			names = append(names, s.Name)
		}
	}
	return names
}

// settings closes the context's settings of agents, editors and shells, for a program.
func (l *layout) settings(program string) {
	for _, name := range settingNames() {
		place := rootfs.Place{Path: filepath.Join(l.context, name), Socket: slices.Contains(readAtStart[filepath.Base(program)], name)}
		l.protect(l.context, place, &l.reserve)
	}
	for _, name := range startup {
		l.protect(l.context, rootfs.Place{Path: filepath.Join(l.context, name)}, nil)
	}
}

// agent opens the agent's own directories, and closes its settings in them.
func (l *layout) agent(p *Policy) error {
	for i := range p.Agent.State {
		s := &p.Agent.State[i]
		dir, err := s.prepare(p.Home, p.lookup)
		if err != nil {
			return err
		}
		l.write = append(l.write, dir)
		for _, setting := range s.Settings {
			place := rootfs.Place{Path: filepath.Join(dir, setting.Name), File: setting.File, Content: setting.Content}
			missing := &l.seed
			if setting.IfThere {
				missing = nil
			}
			l.protect(dir, place, missing)
		}
	}
	return nil
}

// lookup finds a variable in the program's environment.
func (p *Policy) lookup(name string) (string, bool) {
	for _, e := range p.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok && name != "" {
			return v, true
		}
	}
	return "", false
}

// programPlaces are what must be readable for a program to start, if it is not one of
// the system: where it is found, and where it really is.
func programPlaces(path, home string) []string {
	if !filepath.IsAbs(path) {
		return nil
	}
	var places []string
	add := func(file string) {
		place := filepath.Dir(file)
		if i := strings.Index(file, "/node_modules/"); i > 0 {
			place = file[:i] + "/node_modules" // with all that it depends on
		}
		if tooMuch(place, home) != "" {
			place = file
		}
		if real, err := filepath.EvalSymlinks(place); err == nil {
			places = append(places, real)
		}
	}
	add(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		add(real)
	}
	return slices.Compact(places)
}
