package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/ui"
)

// The files of a repository.
const (
	FileName  = "coffer.toml"
	LocalName = "coffer.local.toml"
)

// Places are where everything is looked for.
type Places struct {
	Dir     string // the current directory, without symbolic links
	Home    string // the user's
	User    string // config.toml
	Presets string // the directory of the user's presets
	Trust   string // the directory of what the user has agreed to
	Floor   string // the administrator's policy.toml
}

// DefaultPlaces are those of this user.
func DefaultPlaces(dir, home string) Places {
	within := func(variable, otherwise string) string {
		if d := os.Getenv(variable); filepath.IsAbs(d) {
			return filepath.Join(d, "coffer")
		}
		return filepath.Join(home, otherwise, "coffer")
	}
	conf, state := within("XDG_CONFIG_HOME", ".config"), within("XDG_STATE_HOME", ".local/state")
	return Places{
		Dir: dir, Home: home,
		User: filepath.Join(conf, "config.toml"), Presets: filepath.Join(conf, "presets"),
		Trust: filepath.Join(state, "trust"),
		Floor: "/etc/coffer/policy.toml",
	}
}

// Loaded is what the files say together.
type Loaded struct {
	Config     *Config
	Floor      *Floor   // nil without one
	Repository string   // the directory that coffer.toml is in, or would be
	Files      []string // those that were read, lowest first

	places Places
	tree   *node
	base   *Loaded // without the repository's files; nil if it has none
	asked  []File  // the repository's files, with the presets that they name: what needs consent

	ignoreFiles []File      // those of the repository that say what to hide
	ignored     []mask.Rule // and their lines

	// The mounts, resolved once: what the user agrees to is mounted, even if links change later.
	resolved *resolution
	files    *resolution // likewise, of the home
}

// Load reads all files and merges them. It is nil when there are none.
func (p Places) Load() (*Loaded, error) {
	l := &Loaded{Repository: p.Root(), places: p}
	var err error
	if l.Floor, err = readFloor(p.Floor); err != nil {
		return nil, err
	}
	var layers []layer
	if exists(p.User) {
		// Programs in the sandbox may be able to write the user's file, or its directory, as when the
		// workspace is a repository of settings. Then it is trusted like the repository's.
		layers = append(layers, layer{file: p.User, wish: holds(p.Dir, p.User, p.Presets) != ""})
	}
	for _, name := range []string{FileName, LocalName} {
		if file := filepath.Join(l.Repository, name); p.Dir != "" && exists(file) {
			layers = append(layers, layer{file, true, true})
		}
	}
	if err = l.readIgnoreFiles(); err != nil {
		return nil, err
	}
	if len(layers)+len(l.ignored) == 0 && l.Floor == nil {
		return nil, nil
	}
	return l, l.read(layers)
}

// A layer is a file that counts.
type layer struct {
	file string
	wish bool // a program in a sandbox could have written it
	repo bool // it is the repository's, and must be in it
}

// Defaults are what holds without any file.
func (p Places) Defaults() (*Loaded, error) {
	l := &Loaded{Repository: p.Root(), places: p}
	return l, l.read(nil)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

// Root is the repository that the current directory is in, or that directory. A home is
// no repository, even if it is under version control.
func (p Places) Root() string {
	for dir := p.Dir; dir != p.Home && dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, ".git")) {
			return dir
		}
	}
	return p.Dir
}

func (l *Loaded) read(layers []layer) error {
	tree, problems := parse(builtin, []byte(defaults), &Config{})
	tree = l.Floor.lower(tree)
	base := *l
	base.tree, base.asked = tree, nil
	for _, one := range layers {
		data, err := l.open(one.file, one.repo)
		if err != nil {
			return err
		}
		l.Files = append(l.Files, one.file)
		if one.repo {
			l.asked = append(l.asked, newFile(filepath.Base(one.file), string(data)))
		} else if one.wish {
			l.asked = append(l.asked, newFile(one.file, string(data)))
		}
		top, bad := l.layer(l.shown(one.file), data, len(l.asked) > 0, nil)
		if problems = append(problems, bad...); len(problems) > 0 {
			continue
		}
		if tree = merge(tree, top); len(l.asked) == 0 {
			base.tree = tree
		}
	}
	l.tree = tree
	if len(problems) > 0 {
		return problems.tidy()
	}
	l.asked = append(l.asked, l.ignoreFiles...)
	if len(l.asked) > 0 {
		base.Config, problems = decodeMerged(base.tree)
		l.base = &base
	}
	var bad Problems
	l.Config, bad = decodeMerged(l.tree)
	if problems = append(problems, bad...); l.base != nil && len(problems) == 0 {
		problems = l.presumptions()
	}
	return problems.tidy()
}

// presumptions are keys that a repository cannot set, trusted or not.
func (l *Loaded) presumptions() (problems Problems) {
	if at := l.tree.get("sandbox"); l.Config.Sandbox == "off" && l.base.Config.Sandbox != "off" {
		problems.add(at.at, "sandbox: a repository cannot switch its own sandbox off: say so in your own config.toml, or with --sandbox=off")
	}
	if at := l.tree.get("jail"); at != nil && !reflect.DeepEqual(l.Config.Jail, l.base.Config.Jail) {
		problems.add(at.at, "jail: only your own config.toml can say how jails are made")
	}
	return problems
}

// layer is a file with its presets merged below it. Presets that a repository names are part of
// what the user agrees to.
func (l *Loaded) layer(name string, data []byte, wish bool, above []string) (*node, Problems) {
	var c Config
	tree, problems := parse(name, data, &c)
	if tree == nil {
		return nil, problems
	}
	problems = append(problems, check(&c, tree, false)...)
	below := newTable(Pos{File: name})
	for i, preset := range c.Presets {
		n, bad := l.preset(preset, tree.get("presets", i).at, wish, above)
		problems = append(problems, bad...)
		if n != nil {
			below = merge(below, n)
		}
	}
	return merge(below, tree), problems
}

// open reads a file. One of a repository must be in it, and a pipe does not block.
func (l *Loaded) open(file string, repo bool) ([]byte, error) {
	var f *os.File
	var err error
	const flags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	if repo {
		var root *os.Root
		if root, err = os.OpenRoot(l.Repository); err == nil {
			defer root.Close()
			f, err = root.OpenFile(filepath.Base(file), flags, 0)
		}
	} else {
		f, err = os.OpenFile(file, flags, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("read the config file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", l.shown(file))
	case !repo && info.Mode().Perm()&0o002 != 0:
		return nil, ui.Error(fmt.Sprintf("%s can be written by anybody, so it is not taken for your word", l.shown(file)), "chmod o-w "+file)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.shown(file), err)
	}
	return data, nil
}

// shown is how a file is called in messages.
func (l *Loaded) shown(file string) string {
	switch {
	case filepath.Dir(file) == l.places.Dir:
		return filepath.Base(file)
	case strings.HasPrefix(file, l.places.Home+"/"):
		return "~" + strings.TrimPrefix(file, l.places.Home)
	}
	return file
}
