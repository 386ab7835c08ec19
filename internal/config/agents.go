package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// Known are all agents there are: those that coffer knows, as the files change them, and
// those of the files. l may be nil, or not be read.
func (l *Loaded) Known() []*agent.Agent {
	all := agent.Known()
	if l == nil || l.Config == nil {
		return all
	}
	for _, name := range slices.Sorted(maps.Keys(l.Config.Agents)) {
		c := l.Config.Agents[name]
		a := agent.Custom(c).With(name, agent.Find(all, name))
		i := slices.IndexFunc(all, func(o *agent.Agent) bool { return o.Name == name })
		switch {
		case c.off() && i >= 0:
			all = slices.Delete(all, i, i+1)
		case c.off():
		case i >= 0:
			all[i] = a
		default:
			all = append(all, a)
		}
	}
	return all
}

func (a Agent) off() bool { return a.Enabled != nil && !*a.Enabled }

func (k *checker) agents() {
	for _, name := range slices.Sorted(maps.Keys(k.Agents)) {
		a := k.Agents[name]
		if !isEntryName(name) || strings.HasPrefix(name, "-") {
			k.at(path("agents", name), errors.New("a name has letters, digits, - and _ only, 60 at most"))
		}
		k.at(path("agents", name), agent.Custom(a).Check())
		for i, v := range a.Pass {
			k.at(path("agents", name, "pass", i), checkVariable(v))
		}
		for i, v := range a.CA {
			k.at(path("agents", name, "ca", i), checkVariable(v))
		}
		for _, v := range slices.Sorted(maps.Keys(a.Env)) {
			k.at(path("agents", name, "env", v), checkVariable(v))
		}
		for i, h := range a.Hosts {
			_, err := policy.ParseTarget(h)
			k.at(path("agents", name, "hosts", i), err)
		}
	}
	if name := k.AI.Agent; name != "" && k.complete {
		var names []string
		for _, a := range agent.Known() {
			names = append(names, a.Name)
		}
		names = append(names, slices.Sorted(maps.Keys(k.Agents))...)
		names = slices.DeleteFunc(names, func(n string) bool { return k.Agents[n].off() })
		if !slices.Contains(names, name) {
			k.at(path("ai", "agent"), fmt.Errorf("there is no agent %s: %s", quote(name), didYouMean(name, names)))
		}
	}
}

// RememberAgent adds to the user's own file which agent to start when nothing is said.
func (p Places) RememberAgent(name string) error {
	file := p.User
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // people keep their settings elsewhere and link them
	}
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remember the agent: %w", err)
	}
	tree, _ := parse(file, data, &Config{})
	if tree == nil || tree.get("ai") != nil {
		return ui.Error(fmt.Sprintf("%s has a table [ai] already, or cannot be read", file), fmt.Sprintf("write agent = %q into its table [ai]", name))
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	if data = bytes.TrimRight(data, "\n"); len(data) > 0 {
		data = append(data, "\n\n"...)
	}
	data = fmt.Appendf(data, "[ai]\nagent = %s\n", tomlString(name))
	if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil {
		err = safepath.File{Path: file, Mode: mode}.Write(data)
	}
	if err != nil {
		return fmt.Errorf("remember the agent: %w", err)
	}
	return nil
}
