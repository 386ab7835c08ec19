package agent

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Place is where an agent is on this machine.
type Place struct {
	Program string   // what to start inside, at the same path
	Show    []string // directories that the sandbox must see besides the usual ones
	Path    []string // directories for the front of PATH
	Version string   // "" if it cannot be told without running it
	Own     bool     // it is in our tool store, and not the user's own
}

// ErrNotHere says that an agent is nowhere on this machine.
var ErrNotHere = errors.New("is not installed")

// Host is what the search depends on.
type Host struct {
	Home  string
	Tools string // the tool store
	// Variable finds one of the user's.
	Variable func(string) string
}

// Locate finds an agent: one that the user has installed, else one of the tool store.
func (a *Agent) Locate(h Host) (*Place, error) {
	for _, dir := range h.binaries() {
		if file := filepath.Join(dir, a.Command); executable(file) {
			return h.place(h.behind(file), dir, a)
		}
	}
	if file := h.tool(a); executable(file) {
		p, err := h.place(file, filepath.Dir(file), a)
		if err == nil {
			// The whole of it: an update changes what is current, not what is seen.
			p.Program, p.Own = file, true
			p.Show = append(p.Show, filepath.Join(h.Tools, a.Name))
			p.Show = outermost(p.Show)
		}
		return p, err
	}
	return nil, fmt.Errorf("%s %w", a.Name, ErrNotHere)
}

// tool is where the tool store has an agent's program.
func (h Host) tool(a *Agent) string {
	return filepath.Join(h.Tools, a.Name, current, "node_modules", ".bin", a.Command)
}

// binaries are the directories that people's tools are in: those of PATH, and those that
// installers, version managers and npm use and that a shell may have yet to add.
func (h Host) binaries() (dirs []string) {
	for _, d := range filepath.SplitList(h.Variable("PATH")) {
		if filepath.IsAbs(d) {
			dirs = append(dirs, filepath.Clean(d))
		}
	}
	for _, d := range []string{
		".local/bin", ".claude/local", ".opencode/bin", ".bun/bin", ".volta/bin", ".npm-global/bin",
		".local/share/mise/shims", ".asdf/shims", ".local/share/pnpm", "node_modules/.bin",
	} {
		dirs = append(dirs, filepath.Join(h.Home, d))
	}
	for _, prefix := range []string{h.Variable("NPM_CONFIG_PREFIX"), h.Variable("npm_config_prefix"), npmPrefix(h.Home)} {
		if filepath.IsAbs(prefix) {
			dirs = append(dirs, filepath.Join(prefix, "bin"))
		}
	}
	for _, versions := range []string{".nvm/versions/node/*/bin", ".local/share/fnm/node-versions/*/installation/bin", ".fnm/node-versions/*/installation/bin"} {
		all, _ := filepath.Glob(filepath.Join(h.Home, versions))
		slices.SortFunc(all, func(a, b string) int { return compareVersions(VersionIn(b), VersionIn(a)) })
		dirs = append(dirs, all...)
	}
	return append(dirs, "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin")
}

// npmPrefix is where the user has npm put things, by his .npmrc.
func npmPrefix(home string) string {
	value := strings.Replace(npmSetting(home, "prefix"), "${HOME}", home, 1)
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		value = filepath.Join(home, rest)
	}
	return value
}

// NPMRegistry is the npm registry that the user has chosen, by a variable or in .npmrc, ""
// for npm's own. A name and a password in it are left out: who installs is a stranger.
func NPMRegistry(h Host) string {
	u, err := url.Parse(cmp.Or(h.Variable("npm_config_registry"), h.Variable("NPM_CONFIG_REGISTRY"), npmSetting(h.Home, "registry")))
	if err != nil || u.Hostname() == "" {
		return ""
	}
	u.User = nil
	return u.String()
}

// npmSetting is one of the user's .npmrc.
func npmSetting(home, setting string) string {
	f, err := os.Open(filepath.Join(home, ".npmrc"))
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), "=")
		if ok && strings.TrimSpace(name) == setting {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// place says what a sandbox must see to run a program, which was found by way of a directory:
// the shims there stand for programs that belong together.
func (h Host) place(file, by string, a *Agent) (*Place, error) {
	p := &Place{Program: file, Path: []string{filepath.Dir(file)}}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, err
	}
	p.Version = packageVersion(real)
	if !h.seen(file) {
		p.Program, p.Path = real, []string{filepath.Dir(real)}
	}
	if err := p.show(h, real); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	if interpreter(real) != "node" {
		return p, nil
	}
	node := ""
	for _, dir := range append([]string{filepath.Dir(file), by}, h.binaries()...) {
		if f := filepath.Join(dir, "node"); executable(f) {
			node = h.behind(f)
			break
		}
	}
	if node == "" {
		return nil, ui.Error(fmt.Sprintf("%s needs Node.js, which is not on this machine", a.Name), "install Node.js")
	}
	if real, err = filepath.EvalSymlinks(node); err != nil {
		return nil, err
	}
	p.Path = append(p.Path, filepath.Dir(real))
	return p, p.show(h, real)
}

// show adds what must be seen of a program's surroundings.
func (p *Place) show(h Host, real string) error {
	if h.seen(real) {
		return nil
	}
	dir := filepath.Dir(real)
	// A package needs its neighbours.
	if i := strings.Index(real, "/node_modules/"); i >= 0 {
		dir = real[:i+len("/node_modules")]
	}
	// What Homebrew has built needs its libraries, and a loader of its own.
	if prefix, _, ok := strings.Cut(real, "/Cellar/"); ok {
		dir = prefix
	}
	home := h.Home
	if r, err := filepath.EvalSymlinks(home); err == nil {
		home = r
	}
	if dir == "/" || dir == home || dir == h.Home || safepath.Within(home, dir) {
		return ui.Error(fmt.Sprintf("%s is in a directory that a sandbox cannot be shown", real), "move it into a directory of its own, such as ~/.local/bin")
	}
	p.Show = outermost(append(p.Show, dir))
	return nil
}

// outermost leaves out what lies in another directory of the list.
func outermost(dirs []string) (list []string) {
	slices.Sort(dirs)
	for _, d := range slices.Compact(dirs) {
		if !slices.ContainsFunc(list, func(o string) bool { return safepath.Within(d, o) }) {
			list = append(list, d)
		}
	}
	return list
}

// seen says whether every sandbox sees a file, at its own path.
func (h Host) seen(file string) bool {
	return slices.ContainsFunc(rootfs.Shown(h.Home), func(dir string) bool { return safepath.Within(file, dir) })
}

// interpreter is the program that a script names in its first line, without its path.
func interpreter(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if rest, ok := strings.CutPrefix(line, "#!"); ok && err == nil {
		for _, word := range strings.Fields(rest) {
			if name := filepath.Base(word); name != "env" && !strings.HasPrefix(word, "-") {
				return name
			}
		}
	}
	return ""
}

// An Image is what a sandbox may have its tools from, instead of this machine.
type Image struct {
	Name string
	// Look finds a program by the image's PATH.
	Look func(name string) (path string, ok bool)
}

// LocateIn finds an agent for a sandbox with the tools of an image: the image's own, else one of
// the tool store, which must find there what runs it. What the user has installed was made for
// this machine's libraries.
func (a *Agent) LocateIn(h Host, i Image) (*Place, error) {
	if path, ok := i.Look(a.Command); ok {
		return &Place{Program: path}, nil
	}
	file := h.tool(a)
	_, node := i.Look("node")
	switch there := executable(file); {
	case !there && (a.Package == "" || !node):
		return nil, ui.Error(fmt.Sprintf("the image %s has no %s, nor Node.js to run one from npm with", i.Name, a.Command), "choose an image that has it")
	case !there:
		return nil, fmt.Errorf("%s %w", a.Name, ErrNotHere)
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, err
	}
	if !node && interpreter(real) == "node" {
		return nil, ui.Error(fmt.Sprintf("%s needs Node.js, which the image %s does not have", a.Name, i.Name), "choose an image that has it, such as node:22")
	}
	return &Place{Program: file, Path: []string{filepath.Dir(file)}, Version: packageVersion(real), Own: true, Show: []string{filepath.Join(h.Tools, a.Name)}}, nil
}

// packageVersion reads the version of the npm package that a program belongs to.
func packageVersion(real string) string {
	for dir := filepath.Dir(real); strings.Contains(dir, "/node_modules/"); dir = filepath.Dir(dir) {
		data, err := safepath.ReadOwn(filepath.Join(dir, "package.json"), 1<<20)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var p struct{ Version string }
		if err != nil || json.Unmarshal(data, &p) != nil {
			return ""
		}
		return VersionIn(p.Version)
	}
	return VersionIn(filepath.Base(real)) // installers name a directory or a file by it
}

var versionPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\d+\.\d+(\.\d+)?([-+][0-9A-Za-z.-]+)?`)
})

// VersionIn finds a version in what a program says about itself.
func VersionIn(s string) string {
	if len(s) > 1000 {
		s = s[:1000]
	}
	return versionPattern().FindString(s)
}

// compareVersions compares the numbers of two versions.
func compareVersions(a, b string) int {
	as, bs := numbers(a), numbers(b)
	for i := range as {
		if as[i] != bs[i] {
			return as[i] - bs[i]
		}
	}
	return 0
}

func numbers(v string) (n [3]int) {
	v, _, _ = strings.Cut(v, "-")
	for i, part := range strings.SplitN(v, ".", 3) {
		n[i], _ = strconv.Atoi(part)
	}
	return n
}

// TooOld says whether a version is older than what is known about the agent.
func (a *Agent) TooOld(version string) bool {
	return a.Least != "" && version != "" && compareVersions(version, a.Least) < 0
}

// behind returns the program that a version manager's shim stands for, and any other program
// itself. A shim reads settings in the user's home, which a sandbox does not have.
func (h Host) behind(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return file
	}
	name, data, manager := filepath.Base(file), filepath.Dir(filepath.Dir(file)), filepath.Base(real)
	tool := ""
	switch {
	case name == manager && filepath.Base(filepath.Dir(file)) != "shims":
		return file
	case manager == "volta-shim":
		tool = newest(data, "tools/image/packages/*/bin/"+name, "tools/image/packages/*/*/bin/"+name, "tools/image/"+name+"/*/bin/"+name)
	}
	if tool == "" {
		tool = newest(data, "installs/*/*/bin/"+name, "installs/*/*/"+name)
	}
	if !executable(tool) {
		return file
	}
	return tool
}

// newest finds the program with the highest version in its path, in a directory of a version manager.
func newest(data string, patterns ...string) (tool string) {
	best := ""
	for _, pattern := range patterns {
		all, _ := filepath.Glob(filepath.Join(data, pattern))
		for _, file := range all {
			version := VersionIn(strings.TrimPrefix(file, data))
			if executable(file) && (tool == "" || compareVersions(version, best) > 0) {
				tool, best = file, version
			}
		}
	}
	return tool
}
