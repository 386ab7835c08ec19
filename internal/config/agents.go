package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/policy"
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
