package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
)

// What counts without a question is config.toml, the presets, what was agreed to, and the
// administrator's floor. A program that can write one of them in one sandbox has its way in the
// next. So neither these files, nor a directory or a link on the way to them, be it there already
// or still to be made, may be in a place that programs write to.

// word lists these places. Those below the home count even while a variable names others: the next
// start may be without it.
func (p Places) word() []string {
	list := []string{p.User, p.Presets, p.Trust, p.Floor}
	if p.Home != "" {
		conf := filepath.Join(p.Home, ".config", "coffer")
		list = append(list, filepath.Join(conf, "config.toml"), filepath.Join(conf, "presets"),
			filepath.Join(p.Home, ".local", "state", "coffer", "trust"))
	}
	return slices.DeleteFunc(list, func(path string) bool { return path == "" })
}

// Holds returns the place that a program could change that can write to a directory or file, ""
// if none. The path has no symbolic links.
func (p Places) Holds(path string) string { return holds(path, p.word()...) }

// Leads reports whether a program that can write to a path could change what is in a directory, or
// put another in its place.
func Leads(path, dir string) bool {
	if dir == "" {
		return false
	}
	if holds(path, dir) != "" {
		return true
	}
	real, err := filepath.EvalSymlinks(dir)
	path, gone := filepath.EvalSymlinks(path)
	return err == nil && gone == nil && safepath.Within(path, real)
}

// holds returns the first place to which a way leads through a path.
func holds(path string, places ...string) string {
	if path == "" {
		return ""
	}
	info, _ := os.Lstat(path)
	// A directory can have two names, by a mount or where case does not count.
	same := func(name string) bool {
		other, err := os.Lstat(name)
		return name == path || info != nil && err == nil && os.SameFile(info, other)
	}
	seen := map[string]bool{}
	for _, place := range places {
		for _, way := range ways(place) {
			for i, step := range way {
				if i < len(way)-1 {
					step = filepath.Dir(step) // what is looked up in a directory
				}
				for ; !seen[step]; step = filepath.Dir(step) {
					if same(step) {
						return place
					}
					seen[step] = true
				}
			}
		}
	}
	return ""
}

// ways are the way to a place, and to each link in it: people link presets one by one.
func ways(place string) [][]string {
	list := [][]string{way(place)}
	files, _ := os.ReadDir(place) // a file, or not there: then there is nothing in it
	for _, f := range files {
		if f.Type()&os.ModeSymlink != 0 {
			list = append(list, way(filepath.Join(place, f.Name())))
		}
	}
	return list
}

// way lists what is looked up on the way to a path, in this order: each a name in a real
// directory, links before what they stand for. The last is where the path is, or would be made.
func way(path string) (steps []string) {
	at, rest, links := "/", strings.Split(filepath.Clean(path), "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		step := filepath.Join(at, name)
		steps = append(steps, step)
		to, err := os.Readlink(step)
		if err != nil {
			at = step
			continue
		}
		if links++; links > 40 { // as in the kernel
			return steps
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return append(steps, at) // a link may end at a directory that was passed before
}

// realPlace is where a path is, or would be.
func realPlace(path string) string {
	w := way(path)
	return w[len(w)-1]
}

// Touches reports whether a change of a path, which has no symbolic links above its last part,
// changes one of these places or the way to it.
func (p Places) Touches(path string) bool {
	return slices.ContainsFunc(p.word(), func(place string) bool {
		return slices.ContainsFunc(ways(place), func(w []string) bool {
			return slices.Contains(w, path) || safepath.Within(path, w[len(w)-1])
		})
	})
}
