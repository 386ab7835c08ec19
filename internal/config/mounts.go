package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// system are the places inside that belong to the system or to the kernel. Nothing is
// mounted there: what a program believes of its machine would be the repository's word.
var system = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr", "/run", "/nix", "/gnu",
}

// unmountable are places of the host that are not files: behind them are the kernel and
// its devices, and the sockets of daemons.
var unmountable = []string{"/dev", "/proc", "/run", "/sys"}

// on says whether a path is a place or below it. No place is nowhere.
func on(path, place string) bool {
	return place != "" && (path == place || safepath.Within(path, place))
}

func checkSource(s string) error {
	switch {
	case s == "":
		return errors.New("is missing")
	case strings.ContainsRune(s, 0) || len(s) > 4096:
		return errors.New("is not a path")
	case strings.HasPrefix(s, "~") && s != "~" && !strings.HasPrefix(s, "~/"):
		return errors.New("the home of somebody else is not known: write its path")
	}
	return nil
}

func checkTarget(s string) error {
	rest, home := strings.CutPrefix(s, "~/")
	switch {
	case s == "":
		return errors.New("is missing")
	case strings.ContainsRune(s, 0) || len(s) > 4096:
		return errors.New("is not a path")
	case home && (filepath.Clean("/"+rest) != "/"+rest || rest == ""), !home && (!filepath.IsAbs(s) || filepath.Clean(s) != s || s == "/"):
		return errors.New("must be an absolute path or begin with ~/, without . or .. in it or a slash at the end")
	}
	for _, dir := range append([]string{rootfs.Own}, system...) {
		if on(s, dir) {
			return fmt.Errorf("%s belongs to the system", dir)
		}
	}
	return nil
}

// A mount is one of the config, resolved on this machine.
type mount struct {
	sandbox.Mount
	name    string
	at      Pos
	missing string // what to do without it; "" if it is there
	dir     bool   // of files of the home: it is a directory
}

// A resolution is what the mounts were when they were looked at.
type resolution struct {
	list     []mount
	problems Problems
}

// once keeps what a resolution finds the first time.
func once(kept **resolution, resolve func() ([]mount, Problems)) ([]mount, Problems) {
	if *kept == nil {
		list, problems := resolve()
		*kept = &resolution{list, problems}
	}
	return (*kept).list, slices.Clone((*kept).problems)
}

// mounts are those that are in force, by name.
func (l *Loaded) mounts() ([]mount, Problems) { return once(&l.resolved, l.resolveAll) }

func (l *Loaded) resolveAll() (list []mount, problems Problems) {
	for _, name := range slices.Sorted(maps.Keys(l.Config.Mounts)) {
		m := l.Config.Mounts[name]
		if m.Enabled != nil && !*m.Enabled {
			continue
		}
		at := l.tree.get("mounts", name).at
		if s := l.tree.get("mounts", name, "source"); s != nil {
			at = s.at
		}
		one, err := l.resolve(m)
		if err != nil {
			problems.add(at, "mounts.%s: %s", name, err)
			continue
		}
		one.name, one.at = name, at
		list = append(list, one)
	}
	return list, problems
}

// resolve finds the real places of a mount.
func (l *Loaded) resolve(m Mount) (one mount, err error) {
	one.ReadOnly = m.ReadOnly == nil || *m.ReadOnly
	if one.Target = m.Target; strings.HasPrefix(m.Target, "~/") {
		one.Target = filepath.Join(l.places.Home, m.Target[2:])
	}
	source := m.Source
	switch {
	case source == "~" || strings.HasPrefix(source, "~/"):
		source = filepath.Join(l.places.Home, source[1:])
	case !filepath.IsAbs(source):
		source = filepath.Join(l.Repository, source)
	}
	source = filepath.Clean(source)
	real, err := filepath.EvalSymlinks(source)
	if errors.Is(err, fs.ErrNotExist) {
		// What is there of it must be real, or it would be made somewhere else.
		if real, err = realParent(source); err != nil {
			return one, err
		}
		if one.missing = m.Missing; one.missing == "" {
			one.missing = "fail"
		}
	} else if err != nil {
		return one, err
	} else if info, err := os.Stat(real); err != nil {
		return one, err
	} else if !info.IsDir() && !info.Mode().IsRegular() {
		return one, fmt.Errorf("%s is neither a directory nor a file", real)
	}
	one.Source = real
	return one, l.allowed(one)
}

// realParent resolves what exists of a path.
func realParent(path string) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is a symbolic link to nowhere", path)
	}
	parent := filepath.Dir(path)
	real, err := filepath.EvalSymlinks(parent)
	if errors.Is(err, fs.ErrNotExist) && parent != path {
		real, err = realParent(parent)
	}
	return filepath.Join(real, filepath.Base(path)), err
}

// allowed refuses mounts that nobody can want, trusted or not.
func (l *Loaded) allowed(m mount) error {
	home := l.places.Home
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	switch {
	case m.Source == "/":
		return errors.New("the source is the whole machine")
	case on(home, m.Source):
		return fmt.Errorf("the source %s has your whole home in it, with all your keys", m.Source)
	case on(l.places.Home, m.Target) || on(home, m.Target):
		return fmt.Errorf("the target %s has the sandbox's own home in it", m.Target)
	case on(l.places.Dir, m.Target):
		return fmt.Errorf("the target %s is the workspace, or above it", m.Target)
	case on(m.Target, l.places.Dir) && !m.ReadOnly:
		return fmt.Errorf("the target %s is in the workspace, where only read-only mounts can be", m.Target)
	case !m.ReadOnly && on(l.Repository, m.Source):
		return fmt.Errorf("the source %s has the repository in it, whose .git would be open", m.Source)
	case !m.ReadOnly && slices.Contains(strings.Split(m.Source, "/"), ".git"):
		return fmt.Errorf("the source %s is part of a git directory, which programs inside must not change", m.Source)
	}
	if on(m.Target, l.places.Dir) {
		if err := sandbox.CheckMountPoint(m.Mount, l.places.Dir); err != nil && m.missing == "" {
			return err
		}
	}
	for _, dir := range unmountable {
		if on(m.Source, dir) {
			return fmt.Errorf("%s has no files that could be shown", dir)
		}
	}
	own := []string{filepath.Dir(l.places.User), filepath.Dir(l.places.Trust)}
	if store, err := sandbox.DefaultDir(); err == nil {
		own = append(own, filepath.Dir(store))
	}
	for _, dir := range own {
		dir = realPlace(dir)
		if on(m.Source, dir) || on(dir, m.Source) {
			return fmt.Errorf("the source %s has coffer's own files in it (%s)", m.Source, dir)
		}
	}
	if word := l.places.Holds(m.Source); word != "" && !m.ReadOnly {
		return fmt.Errorf("the source %s is on the way to %s: programs inside must not write your own settings", m.Source, word)
	}
	return nil
}

// Mounts are what the sandbox is to see, in the order of their targets, outer before
// inner. Missing sources are made if the file says so, and make is true; warn hears about the others.
func (l *Loaded) Mounts(warn func(string), make bool) (list []sandbox.Mount, err error) {
	all, problems := l.mounts()
	targets := map[string]string{}
	for _, m := range all {
		if other := targets[m.Target]; other != "" {
			problems.add(m.at, "mounts.%s: mounts.%s has the same target", m.name, other)
		}
		targets[m.Target] = m.name
		switch m.missing {
		case "fail":
			problems.add(m.at, "mounts.%s: %s does not exist", m.name, m.Source)
		case "warn":
			warn(fmt.Sprintf("mounts.%s: %s does not exist, so it is not there inside", m.name, m.Source))
			continue
		case "create":
			if make && len(problems) == 0 {
				if err := os.MkdirAll(m.Source, 0o755); err != nil {
					problems.add(m.at, "mounts.%s: %s", m.name, err)
				}
			}
		}
		list = append(list, m.Mount)
	}
	slices.SortFunc(list, func(a, b sandbox.Mount) int { return strings.Compare(a.Target, b.Target) })
	return list, problems.tidy()
}
