package config

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/secret"
)

// Widens lists what the repository's files give to programs inside that they would not
// have without them. Each is a sentence that says all there is to it: what the user
// agrees to is the words.
func (l *Loaded) Widens(passed func(name string) bool) ([]string, error) {
	if l == nil || l.base == nil {
		return nil, nil
	}
	w := widening{l: l, was: l.base.Config, is: l.Config, passed: passed}
	w.wall()
	if err := w.image(); err != nil {
		return nil, err
	}
	w.limits()
	w.env()
	w.daemons()
	w.masks()
	if err := w.mounts(); err != nil {
		return nil, err
	}
	if err := w.home(); err != nil {
		return nil, err
	}
	w.git()
	if err := w.network(); err != nil {
		return nil, err
	}
	w.agents()
	return w.list, nil
}

type widening struct {
	l       *Loaded
	was, is *Config
	passed  func(string) bool
	list    []string
}

func (w *widening) add(format string, args ...any) {
	w.list = append(w.list, fmt.Sprintf(format, args...))
}

// rank is a word's place in an order, the last for what is not in it.
func rank(word string, order ...string) int {
	if i := slices.Index(order, word); i >= 0 {
		return i
	}
	return len(order)
}

var (
	workspaceOrder = []string{"none", "cow", "worktree", "auto", "direct"}
	networkOrder   = []string{"none", "standard", "ask", "open"}
	isolationOrder = []string{"auto", "jail", "container", "gvisor", "vm"}
)

func (w *widening) wall() {
	if w.was.Sandbox == "require" && w.is.Sandbox == "auto" {
		w.add("sandbox: a weaker wall is taken where the best cannot be had, and you require it")
	}
	if rank(w.is.Isolation, isolationOrder...) < rank(w.was.Isolation, isolationOrder...) {
		w.add("isolation: the wall may be %s, where you have %s", w.is.Isolation, w.was.Isolation)
	}
	if w.is.Nesting && !w.was.Nesting {
		w.add("nesting: programs may make namespaces, behind a weaker wall")
	}
	if rank(w.is.Workspace.Mode, workspaceOrder...) > rank(w.was.Workspace.Mode, workspaceOrder...) {
		w.add("workspace: the directory is shown as %s, where you have %s", w.is.Workspace.Mode, w.was.Workspace.Mode)
	}
}

// image: what is in it stays inside; but who has it is asked by the host, as the user.
func (w *widening) image() error {
	was, err := w.l.base.Image()
	if err != nil {
		return err
	}
	is, err := w.l.Image()
	switch {
	case err != nil:
		return err
	case is == nil && was != nil:
		w.add("image: programs see this machine's own tools, where you have those of %s", was)
	case is == nil || was != nil && *is == *was:
	case is.Local():
		w.add("image: all tools inside are those of %s, which is read from this machine", is)
	default:
		w.add("image: all tools inside are those of %s, which is fetched from %s with your credentials, if you have any for it", is, is.Where())
	}
	return nil
}

// limits: where the user has one, it cannot be raised without a word.
func (w *widening) limits() {
	amount := func(c *Config) []float64 {
		memory, _ := limits.ParseMemory(c.Limits.Memory)
		timeout, _ := parseTime(c.Limits.Timeout)
		return []float64{float64(memory), float64(c.Limits.Pids), c.Limits.CPUs, float64(c.Limits.OpenFiles), timeout.Seconds()}
	}
	was, is := amount(w.was), amount(w.is)
	shown := func(c *Config) []any {
		return []any{c.Limits.Memory, c.Limits.Pids, c.Limits.CPUs, c.Limits.OpenFiles, c.Limits.Timeout}
	}
	for i, name := range []string{"memory", "pids", "cpus", "open_files", "timeout"} {
		if was[i] == 0 {
			was[i] = math.Inf(1)
		}
		if is[i] == 0 {
			is[i] = math.Inf(1)
		}
		if is[i] > was[i] {
			w.add("limits: %s is %v, where you have %v", name, shown(w.is)[i], shown(w.was)[i])
		}
	}
	if kept(w.is.Limits.KeepFree) < kept(w.was.Limits.KeepFree) {
		w.add("limits: programs leave %s of a disk free, where you have %s", w.is.Limits.KeepFree, w.was.Limits.KeepFree)
	}
}

// kept is how many bytes of a disk are kept free.
func kept(text string) int64 {
	n, _ := limits.ParseKeepFree(text)
	return n
}

func (w *widening) env() {
	for _, name := range w.is.Env.Pass {
		if !slices.Contains(w.was.Env.Pass, name) && (strings.HasSuffix(name, "*") || !w.passed(name)) {
			if strings.HasSuffix(name, "*") {
				w.add("environment: your variables whose names begin with %s are passed on", strings.TrimSuffix(name, "*"))
			} else {
				w.add("environment: your variable %s is passed on", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.is.Env.Set)) {
		if w.was.Env.Set[name] == w.is.Env.Set[name] {
			continue
		}
		w.reads(w.is.Env.Set[name], name)
	}
}

// reads is about the variables and secrets that a template takes from the host. A variable
// stands for the secret of its name as well, while it is not set; but for those that go into
// every sandbox. What is agreed to must not depend on what happens to be set now.
func (w *widening) reads(text, in string) {
	read, _ := secret.Mentions(text)
	slices.SortFunc(read, func(a, b secret.Ref) int {
		return strings.Compare(fmt.Sprint(a.Name, a.Secret), fmt.Sprint(b.Name, b.Secret))
	})
	for _, r := range slices.Compact(read) {
		switch {
		case r.Secret:
			w.add("secrets: your secret %s is given to programs, in %s", r.Name, in)
		case w.passed(r.Name):
		case covered(r.Name, w.was.Env.Pass):
			w.add("secrets: your secret %s is given to programs where your variable of that name is not set, in %s", r.Name, in)
		default:
			w.add("environment: your variable %s, or else your secret of that name, is passed on, in %s", r.Name, in)
		}
	}
}

// covered says whether a list of names and prefixes has a name.
func covered(name string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		prefix, any := strings.CutSuffix(p, "*")
		return p == name || any && strings.HasPrefix(name, prefix)
	})
}

func (w *widening) mounts() error {
	was, problems := w.l.base.mounts()
	is, more := w.l.mounts()
	if err := append(problems, more...).tidy(); err != nil {
		return err
	}
	for _, m := range is {
		had := slices.ContainsFunc(was, func(o mount) bool {
			return o.Mount == m.Mount && o.missing == m.missing
		})
		// The repository is visible anyway, but not all of it may be changed.
		if had || m.ReadOnly && m.missing != "create" && on(m.Source, w.l.places.Dir) && w.is.Workspace.Mode != "none" {
			continue
		}
		can := "read"
		if !m.ReadOnly {
			can = "read and change"
		}
		if m.missing == "create" {
			can = "have made on this machine, and " + can + ","
		}
		git := ""
		if !m.ReadOnly && exists(filepath.Join(m.Source, ".git")) {
			git = "; it is a git repository, whose hooks they could change too"
		}
		w.add("mounts: programs can %s %s of this machine, as %s%s", can, m.Source, m.Target, git)
	}
	return nil
}

func (w *widening) network() error {
	was, is := w.was.Network, w.is.Network
	if rank(is.Mode, networkOrder...) > rank(was.Mode, networkOrder...) {
		w.add("network: the mode is %s, where you have %s", is.Mode, was.Mode)
	}
	if is.Default != was.Default && is.Default != "deny" {
		w.add("network: what no rule is about has the answer %s", is.Default)
	}
	had, err := policy.Stack{Mode: was.Mode, Rules: w.was.sources(w.l.base.tree)}.Compile(policy.Source{})
	if err != nil {
		return err
	}
	for _, g := range is.Groups {
		name := "@" + strings.TrimPrefix(g, "@")
		if len(had.Beyond(policy.RuleSource{Allow: []string{name}})) > 0 {
			w.add("network: the hosts of the group %s can be reached", name)
		}
	}
	w.rules(had)
	for _, p := range is.HostPorts {
		if !slices.Contains(was.HostPorts, p) {
			w.add("network: port %s of this machine can be reached", p)
		}
	}
	for _, p := range is.Publish {
		if !slices.Contains(was.Publish, p) {
			w.add("network: a port of this machine leads inside, %s", p)
		}
	}
	for _, s := range is.SocketIn {
		if !slices.Contains(was.SocketIn, s) {
			w.add("network: programs can talk to whatever listens on the socket %s of this machine", s)
		}
	}
	for _, s := range is.SocketOut {
		if !slices.Contains(was.SocketOut, s) {
			w.add("network: a socket inside can be reached on this machine, %s", s)
		}
	}
	return nil
}

// rules: those that allow more, and the user's own that are no longer what they were.
func (w *widening) rules(had *policy.Set) {
	was := w.was.Network.Rules
	same := func(r policy.RuleSource) bool {
		return slices.ContainsFunc(was, func(o policy.RuleSource) bool { return reflect.DeepEqual(o, r) })
	}
	for i, r := range w.is.Network.Rules {
		// Merging leaves the user's rules where they were, changed or not.
		if i < len(was) && !reflect.DeepEqual(was[i], r) && !tighter(was[i], r) {
			now := "now " + describe(r)
			if off(r) {
				now = "switched off"
			}
			w.add("network: your own rule %s is %s; it was %s", r.Name, now, describe(was[i]))
		}
		if same(r) {
			continue
		}
		if beyond := had.Beyond(r); len(beyond) > 0 {
			r.Allow = beyond
			r.Deny, r.Ask = nil, nil
			w.add("network: %s", describe(r))
		}
	}
}

// tighter says whether a rule surely takes away no more than one that replaces it. What
// the new one allows is not asked here. An allow rule takes away as well: its bound holds
// for what other rules allow too.
func tighter(old, new policy.RuleSource) bool {
	if off(old) {
		return true
	}
	narrow := old.Protocol != "" || len(old.Methods)+len(old.Paths) > 0 || old.MaxUpload != "" || old.MaxDownload != ""
	if len(old.Deny)+len(old.Ask) == 0 && !narrow {
		return true // it only gives
	}
	return !off(new) && old.Protocol == new.Protocol &&
		slices.Equal(old.Methods, new.Methods) && slices.Equal(old.Paths, new.Paths) &&
		within(old.Deny, new.Deny) && within(old.Ask, new.Ask) && within(old.Allow, new.Allow) &&
		lower(new.MaxUpload, old.MaxUpload) && lower(new.MaxDownload, old.MaxDownload)
}

func off(r policy.RuleSource) bool { return r.Enabled != nil && !*r.Enabled }

// within says whether a list has all that is in another.
func within(few, many []string) bool {
	return !slices.ContainsFunc(few, func(s string) bool { return !slices.Contains(many, s) })
}

// lower says whether a bound is no higher than another, where "" is none.
func lower(a, b string) bool {
	if a == b || b == "" {
		return true
	}
	x, errX := policy.ParseSize(a)
	y, errY := policy.ParseSize(b)
	return errX == nil && errY == nil && x <= y
}

// spelled are targets in their canonical form, in which a name with letters that only look
// like others is seen to be another.
func spelled(list []string) []string {
	out := slices.Clone(list)
	for i, s := range out {
		if t, err := policy.ParseTarget(s); err == nil {
			out[i] = t.String()
		}
	}
	return out
}

// describe is a rule in words, with everything that matters.
func describe(r policy.RuleSource) string {
	var parts []string
	for _, p := range []struct {
		verb string
		list []string
	}{{"deny", r.Deny}, {"ask for", r.Ask}, {"allow", r.Allow}} {
		if len(p.list) > 0 {
			parts = append(parts, p.verb+" "+strings.Join(spelled(p.list), ", "))
		}
	}
	if r.Protocol != "" {
		parts = append(parts, "by "+r.Protocol)
	}
	if len(r.Methods) > 0 {
		parts = append(parts, "for "+strings.Join(r.Methods, ", "))
	}
	if len(r.Paths) > 0 {
		parts = append(parts, fmt.Sprintf("on %q", r.Paths)) // may have any words in them
	}
	if r.MaxUpload != "" {
		parts = append(parts, "at most "+r.MaxUpload+" up")
	}
	if r.MaxDownload != "" {
		parts = append(parts, "at most "+r.MaxDownload+" down")
	}
	return strings.Join(parts, ", ")
}
