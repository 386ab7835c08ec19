package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// The scripts that count without being named.
const (
	SetupScript   = ".coffer/setup.sh"
	ProfileScript = ".coffer/profile.sh"
)

// Scripts and daemons run inside, so a repository's widen nothing, but for what a daemon's
// environment takes from the host.

const (
	setupTime = 30 * time.Minute // for all of a setup
	readyTime = 30 * time.Second // for one daemon
	graceTime = 5 * time.Second
)

func (k *checker) hooks() {
	for i, s := range k.Setup.Scripts {
		k.at(path("setup", "scripts", i), checkScript(s))
	}
	for i, s := range k.Profile.Scripts {
		k.at(path("profile", "scripts", i), checkScript(s))
	}
	for i, s := range k.Setup.Commands {
		if strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) {
			k.at(path("setup", "commands", i), errors.New("is no command"))
		}
	}
	if k.tree.get("setup", "timeout") != nil {
		_, err := parseTime(k.Setup.Timeout)
		k.at(path("setup", "timeout"), err)
	}
	for _, name := range slices.Sorted(maps.Keys(k.Daemons)) {
		k.daemon(name, k.Daemons[name])
	}
	if len(k.Daemons) > sandbox.MaxDaemons {
		k.at(path("daemons"), fmt.Errorf("there are %d, and can be %d", len(k.Daemons), sandbox.MaxDaemons))
	}
}

func checkScript(s string) error {
	if !filepath.IsLocal(s) || s == "." || strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s is not a path in the workspace", quote(s))
	}
	return nil
}

func (k *checker) daemon(name string, d Daemon) {
	at := func(key string, err error) { k.at(path("daemons", name, key), err) }
	if !isEntryName(name) {
		k.at(path("daemons", name), errors.New("a name has letters, digits, - and _ only, 60 at most"))
	}
	has := func(key string) bool { return k.tree.get("daemons", name, key) != nil }
	if len(d.Command) == 0 && (k.complete || has("command")) || len(d.Command) > 0 && d.Command[0] == "" {
		at("command", errors.New("is missing"))
	}
	for _, a := range d.Command {
		if strings.ContainsRune(a, 0) {
			at("command", errors.New("has a NUL in it"))
		}
	}
	if d.Cwd != "" && !filepath.IsAbs(d.Cwd) && !filepath.IsLocal(d.Cwd) {
		at("cwd", fmt.Errorf("%s is neither a path in the workspace nor an absolute one inside", quote(d.Cwd)))
	}
	for _, v := range slices.Sorted(maps.Keys(d.Env)) {
		err := checkVariable(v)
		if err == nil {
			err = checkTemplate(d.Env[v])
		}
		k.at(path("daemons", name, "env", v), err)
	}
	if has("stop_signal") {
		if _, ok := sandbox.ParseSignal(d.StopSignal); !ok {
			at("stop_signal", fmt.Errorf("there is no signal %s", quote(d.StopSignal)))
		}
	}
	for key, text := range map[string]string{"grace": d.Grace, "ready_timeout": d.ReadyTimeout} {
		if has(key) {
			_, err := parseTime(text)
			at(key, err)
		}
	}
	if has("ready") {
		_, _, err := d.Ready.parse()
		at("ready", err)
	}
}

// parse tells a port from a command.
func (r Ready) parse() (port uint16, command string, err error) {
	if r == "" || strings.ContainsRune(string(r), 0) {
		return 0, "", errors.New("is neither a port nor a command")
	}
	if strings.Trim(string(r), "0123456789") != "" {
		return 0, string(r), nil
	}
	n, err := strconv.ParseUint(string(r), 10, 16)
	if err != nil || n == 0 {
		return 0, "", fmt.Errorf("%s is not a port", quote(string(r)))
	}
	return uint16(n), "", nil
}

// A Preparation is what a new sandbox is set up with.
type Preparation struct {
	Scripts  []string // in the workspace
	Commands []string // for a shell
	Timeout  time.Duration
	Run      bool // for a throw-away as well
	Tools    bool // those that the repository names for mise, before all else
	named    bool
}

// Setup is how a new sandbox is set up. l may be nil.
func (l *Loaded) Setup() Preparation {
	p := Preparation{Timeout: setupTime, Tools: true}
	if l == nil {
		return p
	}
	c := l.Config.Setup
	if c.Enabled != nil && !*c.Enabled {
		p.named, p.Tools = true, false
		return p
	}
	p.Scripts, p.Commands, p.Run, p.named = c.Scripts, c.Commands, c.Run, len(c.Scripts) > 0
	if d, err := parseTime(c.Timeout); err == nil {
		p.Timeout = d
	}
	return p
}

// Mise says whether a sandbox gets the tools that its repository names for mise. l may be
// nil.
func (l *Loaded) Mise() bool {
	return l == nil || l.Config.Setup.Mise == nil || *l.Config.Setup.Mise
}

// In adds the script that counts without being named, if the workspace has it.
func (p Preparation) In(workspace string) Preparation {
	if !p.named && workspace != "" && exists(filepath.Join(workspace, SetupScript)) {
		p.Scripts = []string{SetupScript}
	}
	return p
}

// Profile are the scripts that interactive shells read. l may be nil.
func (l *Loaded) Profile(workspace string) []string {
	if l != nil {
		c := l.Config.Profile
		if c.Enabled != nil && !*c.Enabled {
			return nil
		}
		if len(c.Scripts) > 0 {
			return c.Scripts
		}
	}
	if workspace == "" || !exists(filepath.Join(workspace, ProfileScript)) {
		return nil
	}
	return []string{ProfileScript}
}

// Daemons are those that are in force, in the order of their names.
func (l *Loaded) Daemons() (list []sandbox.Daemon, err error) {
	for _, name := range slices.Sorted(maps.Keys(l.Config.Daemons)) {
		c := l.Config.Daemons[name]
		if c.Enabled != nil && !*c.Enabled {
			continue
		}
		d := sandbox.Daemon{Name: name, Command: c.Command, Dir: c.Cwd, Restart: c.Restart, Grace: graceTime, Signal: c.StopSignal}
		if d.Restart == "" {
			d.Restart = sandbox.RestartOnFailure
		}
		if c.Grace != "" {
			d.Grace, _ = parseTime(c.Grace)
		}
		if c.Ready != "" {
			d.ReadyPort, d.ReadyCommand, _ = c.Ready.parse()
			if d.ReadyTimeout, _ = parseTime(c.ReadyTimeout); d.ReadyTimeout == 0 {
				d.ReadyTimeout = readyTime
			}
		}
		for _, v := range slices.Sorted(maps.Keys(c.Env)) {
			if _, err := sandbox.FillTemplate(c.Env[v]); err != nil {
				return nil, unfilled(l.tree.get("daemons", name, "env", v).at, fmt.Sprintf("daemons.%s.env.%s", name, v), err)
			}
			d.Env = append(d.Env, v+"="+c.Env[v])
		}
		list = append(list, d)
	}
	return list, nil
}

func (k *checker) jail() {
	for i, p := range k.Jail.ContextRoots {
		k.at(path("jail", "context_roots", i), checkPlace(p))
	}
	for i, p := range k.Jail.Write {
		k.at(path("jail", "write", i), checkPlace(p))
	}
}

// checkPlace wants a path of this machine that does not depend on where one is.
func checkPlace(p string) error {
	if !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%s is not an absolute path on this machine, nor one that begins with ~/", quote(p))
	}
	return nil
}
