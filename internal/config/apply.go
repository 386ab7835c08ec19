package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/image"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/ui"
)

// Environment is what programs are given by the files, as NAME=value.
func (l *Loaded) Environment() (list []string, err error) {
	env := map[string]string{}
	for _, e := range os.Environ() {
		if name, value, ok := strings.Cut(e, "="); ok && secret.IsName(name) && !strings.HasPrefix(name, "COFFER_") && covered(name, l.Config.Env.Pass) {
			env[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Config.Env.Set)) {
		if env[name], err = sandbox.FillTemplate(l.Config.Env.Set[name]); err != nil {
			return nil, unfilled(l.tree.get("env", "set", name).at, "env.set."+name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list, nil
}

// NoImage is the word for this machine's own tools.
const NoImage = "none"

// Image is what sandboxes have their tools from; nil for this machine.
func (l *Loaded) Image() (*image.Reference, error) {
	if l == nil || l.Config.Image == "" || l.Config.Image == NoImage {
		return nil, nil
	}
	r, err := image.Parse(l.Config.Image)
	if err != nil {
		return nil, err
	}
	r = r.In(l.Repository, l.places.Home)
	return &r, nil
}

func unfilled(at Pos, key string, err error) error {
	way := ui.HintOf(err)
	if way == "" {
		way = "change the file"
	}
	return ui.Error(fmt.Sprintf("%s: %s %s", at, key, err), way)
}

// Variables is Environment for a record, without the user's values: fixed has NAME=value for
// variables that the files set and NAME for those that are passed on, from has NAME=template. So no
// secret is written down, and programs get the values of the moment they start.
func (l *Loaded) Variables() (fixed, from []string, err error) {
	now, err := l.Environment() // that it can be had is found out when a sandbox is made
	if err != nil {
		return nil, nil, err
	}
	for _, e := range now {
		name, _, _ := strings.Cut(e, "=")
		text, set := l.Config.Env.Set[name]
		switch read, _ := secret.Mentions(text); {
		case !set:
			fixed = append(fixed, name)
		case len(read) > 0:
			from = append(from, name+"="+text)
		default:
			fixed = append(fixed, e)
		}
	}
	return fixed, from, nil
}

// Rules are what the files add to the network's mode. Where that is none, and they only
// take away, there is nothing to take from.
func (l *Loaded) Rules(mode string) []policy.Source {
	list := l.Config.sources(l.tree)
	if mode != "none" {
		return list
	}
	for _, s := range list {
		if len(s.Groups) > 0 || s.Default != "" && s.Default != "deny" {
			return list
		}
		for _, r := range s.Rules {
			if len(r.Allow)+len(r.Ask) > 0 && (r.Enabled == nil || *r.Enabled) {
				return list
			}
		}
	}
	return nil
}

// Offline takes away what the files say about the network, for a sandbox that has none.
// Ports and sockets that lead inside stay.
func (l *Loaded) Offline() {
	n := &l.Config.Network
	n.Mode, n.Default = "none", "deny"
	n.Groups, n.Rules, n.HostPorts = nil, nil, nil
}

// HostPorts are the ports of the host that the files ask for.
func (l *Loaded) HostPorts() (list []sandbox.HostPort, err error) {
	for _, p := range l.Config.Network.HostPorts {
		h, err := p.Parse()
		if err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	return list, nil
}

// Openings are the ports and sockets that lead through the wall, written as the flags of
// these names take them.
func (l *Loaded) Openings() (publish, socketIn, socketOut []string) {
	for _, p := range l.Config.Network.Publish {
		publish = append(publish, string(p))
	}
	for _, s := range l.Config.Network.SocketIn {
		host, inside, both := strings.Cut(s, ":")
		if host = l.atHome(host); both {
			host += ":" + inside
		}
		socketIn = append(socketIn, host)
	}
	for _, s := range l.Config.Network.SocketOut {
		inside, host, _ := strings.Cut(s, ":")
		socketOut = append(socketOut, inside+":"+l.atHome(host))
	}
	return publish, socketIn, socketOut
}

func (l *Loaded) atHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(l.places.Home, rest)
	}
	return path
}

// Jail is what the user says about jails, with the paths on this machine. Of the places
// that can be written to, those that do not exist are left out.
func (l *Loaded) Jail() Jail {
	j := l.Config.Jail
	roots, write := j.ContextRoots, j.Write
	j.ContextRoots, j.Write = nil, nil
	for _, r := range roots {
		j.ContextRoots = append(j.ContextRoots, l.atHome(r))
	}
	for _, w := range write {
		if w = l.atHome(w); exists(w) {
			j.Write = append(j.Write, w)
		}
	}
	return j
}

// Git is what a sandbox may have the host do with its repository.
func (l *Loaded) Git() sandbox.Git {
	g := l.Config.Git
	for _, answer := range []*string{&g.Push, &g.Upstream, &g.GH, &g.GHRead} {
		if *answer == "ask" {
			*answer = "" // as every record has it that says nothing
		}
	}
	if g.Nested == "lock" {
		g.Nested = ""
	}
	return sandbox.Git{Push: g.Push, Patterns: g.PushPatterns, Upstream: g.Upstream, GH: g.GH, GHRead: g.GHRead, Nested: g.Nested, NoSettings: l.Config.Home.withoutGit()}
}
