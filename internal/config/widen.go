package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/secret"
)

// Widens lists what the repository's files give to programs that they would not have without
// them: keys with their values, and real paths. The user agrees to the files as they are, see
// [Trust]; the list says whether there is anything to agree to. A key that differs counts, unless
// it is about the inside only, or the change takes away.
func (l *Loaded) Widens(passed func(name string) bool) ([]string, error) {
	if l == nil || l.base == nil {
		return nil, nil
	}
	w := widening{l: l, passed: passed}
	w.compare("", reflect.ValueOf(*l.base.Config), reflect.ValueOf(*l.Config))
	for _, r := range l.MasksShown() {
		w.add("masks: programs can see files that are hidden otherwise, by the line %s of %s", r.Text, r.From)
	}
	for _, step := range []func() error{w.mounts, w.home, w.network} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return w.list, nil
}

type widening struct {
	l      *Loaded
	passed func(string) bool
	list   []string
}

func (w *widening) add(format string, args ...any) {
	w.list = append(w.list, fmt.Sprintf(format, args...))
}

// apart are tables and keys that widen nothing, or that are compared in another way.
var apart = []string{"presets", "setup", "profile", "ai", "jail", "masks", "mounts", "caches", "home", "network.rules", "network.groups"}

var (
	isolationOrder = []string{"auto", "jail", "container", "gvisor", "vm"}
	networkOrder   = []string{"none", "standard", "ask", "open"}
	consentOrder   = []string{"deny", "ask", "allow"}
	// orders are the words of keys, each wider than those before it.
	orders = map[string][]string{
		"sandbox":        {"require", "auto"},
		"isolation":      {"vm", "gvisor", "container", "jail", "auto"},
		"workspace.mode": {"none", "cow", "worktree", "auto", "direct"},
		"network.mode":   networkOrder,
		"git.push":       consentOrder,
		"git.upstream":   consentOrder,
		"git.gh":         consentOrder,
		"git.gh_read":    consentOrder,
		"git.nested":     {"lock", "open"},
	}
)

// rank is a word's place in an order, the last for one that is not in it.
func rank(word string, order ...string) int {
	if i := slices.Index(order, word); i >= 0 {
		return i
	}
	return len(order)
}

// compare goes through the keys of two configs.
func (w *widening) compare(path string, was, is reflect.Value) {
	switch {
	case slices.Contains(apart, path):
	case is.Kind() == reflect.Struct:
		if a, ok := is.Interface().(Agent); ok && a.off() {
			return
		}
		for f := range is.Type().Fields() {
			if name := f.Tag.Get("toml"); name != "" {
				w.compare(join(path, name), was.FieldByIndex(f.Index), is.FieldByIndex(f.Index))
			}
		}
	case is.Kind() == reflect.Map:
		keys := is.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			old := was.MapIndex(key)
			if !old.IsValid() {
				old = reflect.Zero(is.Type().Elem())
			}
			w.compare(join(path, key.String()), old, is.MapIndex(key))
		}
	case !reflect.DeepEqual(was.Interface(), is.Interface()) && !w.narrower(path, was, is):
		var more []string
		for _, item := range shown(is) {
			if !slices.Contains(shown(was), item) {
				more = append(more, item)
			}
		}
		text := strings.Join(more, ", ")
		switch {
		case is.Kind() == reflect.Slice && len(more) == 0 && !strings.HasPrefix(path, "agents."):
		case is.Kind() == reflect.Slice:
			w.add("%s = [%s]", path, text)
		case was.IsZero():
			w.add("%s = %s", path, text)
		default:
			w.add("%s = %s, where you have %s", path, text, shown(was)[0])
		}
	}
}

// narrower reports whether a change of a key is known to give programs nothing.
func (w *widening) narrower(path string, was, is reflect.Value) bool {
	top, key, _ := strings.Cut(path, ".")
	switch order := orders[path]; {
	case top == "agents":
		return false
	case is.IsZero():
		return true
	case order != nil:
		return rank(is.String(), order...) < rank(was.String(), order...)
	case path == "network.default":
		return is.String() == "deny"
	case path == "image":
		return is.String() == NoImage && was.IsZero()
	case path == "env.pass":
		return !slices.ContainsFunc(is.Interface().([]string), func(name string) bool {
			return !slices.Contains(was.Interface().([]string), name) && !w.passed(name)
		})
	case top == "limits":
		return !raised(key, was, is)
	case strings.HasPrefix(path, "env.set.") || top == "daemons" && strings.Contains(key, ".env."):
		refs, _ := secret.Mentions(is.String())
		return !slices.ContainsFunc(refs, func(r secret.Ref) bool { return r.Secret || !w.passed(r.Name) })
	}
	return top == "daemons"
}

// raised reports whether a limit is higher than it was; 0 is none.
func raised(key string, was, is reflect.Value) bool {
	if key == "keep_free" {
		return kept(is.String()) < kept(was.String())
	}
	amount := func(v reflect.Value) (n float64) {
		switch {
		case key == "memory":
			bytes, _ := limits.ParseMemory(v.String())
			n = float64(bytes)
		case key == "timeout":
			d, _ := parseTime(v.String())
			n = d.Seconds()
		case v.CanFloat():
			n = v.Float()
		default:
			n = float64(v.Int())
		}
		if n == 0 {
			return math.Inf(1)
		}
		return n
	}
	return amount(is) > amount(was)
}

// kept is how many bytes of a disk are kept free.
func kept(text string) int64 {
	n, _ := limits.ParseKeepFree(text)
	return n
}

// shown is a value as TOML writes it, or the items of a list.
func shown(v reflect.Value) (list []string) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			list = append(list, shown(v.Index(i))...)
		}
		return list
	case reflect.Pointer:
		return shown(v.Elem())
	case reflect.String:
		return []string{tomlString(v.String())}
	}
	return []string{fmt.Sprint(v)}
}

// covered reports whether a list of names and prefixes has a name.
func covered(name string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		prefix, any := strings.CutSuffix(p, "*")
		return p == name || any && strings.HasPrefix(name, prefix)
	})
}

// mounts names real paths, which may change while the file stays the same.
func (w *widening) mounts() error {
	was, problems := w.l.base.mounts()
	is, more := w.l.mounts()
	for _, m := range is {
		had := slices.ContainsFunc(was, func(o mount) bool { return o.Mount == m.Mount && o.missing == m.missing })
		// The repository is visible anyway, but not all of it may be changed.
		if had || m.ReadOnly && m.missing != "create" && on(m.Source, w.l.places.Dir) && w.l.Config.Workspace.Mode != "none" {
			continue
		}
		can := "read"
		if !m.ReadOnly {
			can = "read and change"
		}
		if m.missing == "create" {
			can = "have made on this machine, and " + can + ","
		}
		w.add("mounts: programs can %s %s of this machine, as %s", can, m.Source, m.Target)
	}
	return append(problems, more...).tidy()
}

// home names the files of the user's home, and the caches.
func (w *widening) home() error {
	was, problems := w.l.base.given()
	is, more := w.l.given()
	for _, m := range is {
		switch {
		case slices.ContainsFunc(was, func(o mount) bool { return o.Mount == m.Mount }):
		case m.Source != m.Target:
			w.add("home: programs can read your %s, which is %s", m.name, m.Source)
		default:
			w.add("home: programs can read your %s", m.name)
		}
	}
	if w.l.base.Config.Home.withoutGit() && !w.l.Config.Home.withoutGit() {
		w.add("home: programs can read your git aliases and styles")
	}
	had := w.l.base.cacheNames()
	for _, name := range w.l.cacheNames() {
		if !slices.Contains(had, name) {
			w.add("caches: programs can read your %s cache", name)
		}
	}
	return append(problems, more...).tidy()
}

// network names what its rules and groups allow beyond what is allowed anyway.
func (w *widening) network() error {
	was, is := w.l.base.Config, w.l.Config.Network
	had, err := policy.Stack{Mode: was.Network.Mode, Rules: was.sources(w.l.base.tree)}.Compile(policy.Source{})
	if err != nil {
		return err
	}
	rules := slices.Clone(is.Rules)
	for _, g := range is.Groups {
		rules = append(rules, policy.RuleSource{Allow: []string{"@" + strings.TrimPrefix(g, "@")}})
	}
	for i, r := range rules {
		// Merging leaves the user's rules where they were, changed or not.
		if i < len(was.Network.Rules) {
			if reflect.DeepEqual(was.Network.Rules[i], r) {
				continue
			}
			w.add("network: your own rule %s is changed", r.Name)
		}
		var beyond []string
		for _, s := range had.Beyond(r) {
			if t, err := policy.ParseTarget(s); err == nil {
				s = t.String() // canonical: letters that look like others are told apart
			}
			beyond = append(beyond, s)
		}
		if len(beyond) > 0 {
			w.add("network: allow %s", strings.Join(beyond, ", "))
		}
	}
	return nil
}
