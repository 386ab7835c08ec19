package config

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed presets/*.toml
var embedded embed.FS

// A Preset is a config with a name.
type Preset struct {
	Name  string `json:"name"`
	About string `json:"about"` // its first comment
	Text  string `json:"-"`
	User  bool   `json:"own"` // the user's own
}

// FindPresets lists the built-in presets and the user's, which may replace them.
func (p Places) FindPresets() (list []Preset, err error) {
	files, err := embedded.ReadDir("presets")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadDir(p.Presets)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, f := range append(files, own...) {
		if name, ok := strings.CutSuffix(f.Name(), ".toml"); ok && isEntryName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		one, err := p.Preset(name)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// errNoPreset is for names that no preset has.
var errNoPreset = errors.New("there is no such preset")

// Preset finds one by its name, the user's before the built-in one.
func (p Places) Preset(name string) (Preset, error) {
	if !isEntryName(name) {
		return Preset{}, errNoPreset
	}
	if file := filepath.Join(p.Presets, name+".toml"); p.Presets != "" && exists(file) {
		data, err := (&Loaded{places: p}).open(file, false)
		return Preset{name, about(string(data)), string(data), true}, err
	}
	data, err := embedded.ReadFile("presets/" + name + ".toml")
	if err != nil {
		return Preset{}, errNoPreset
	}
	return Preset{name, about(string(data)), string(data), false}, nil
}

// about is the comment on the first line.
func about(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if !strings.HasPrefix(line, "#") {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "#"))
}

// maxNesting bounds presets of presets.
const maxNesting = 8

// preset reads a preset that a file names.
func (l *Loaded) preset(name string, at Pos, wish bool, above []string) (*node, Problems) {
	var problems Problems
	if slices.Contains(above, name) {
		problems.add(at, "preset %s is made of itself: %s", quote(name), strings.Join(append(above, name), " → "))
		return nil, problems
	}
	if len(above) > maxNesting {
		problems.add(at, "presets are nested more than %d deep", maxNesting)
		return nil, problems
	}
	one, err := l.places.Preset(name)
	if errors.Is(err, errNoPreset) {
		var names []string
		all, err := l.places.FindPresets()
		for _, p := range all {
			names = append(names, p.Name)
		}
		if err != nil {
			problems.add(at, "%s", err)
		}
		problems.add(at, "there is no preset %s: %s", quote(name), didYouMean(name, names))
		return nil, problems
	}
	if err != nil {
		problems.add(at, "preset %s: %s", quote(name), err)
		return nil, problems
	}
	if wish {
		l.asked = append(l.asked, newFile("preset "+name, one.Text))
	}
	tree, problems := l.layer("preset "+name, []byte(one.Text), wish, append(slices.Clone(above), name))
	if tree != nil {
		delete(tree.fields, "presets") // they have been put below it
	}
	return tree, problems
}
