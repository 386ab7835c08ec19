package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/secret"
)

// Widens lists what the repository's files give to programs inside that they would not have
// without them, a short sentence each. Whoever agrees agrees to the files as they are, see
// [Trust]; the sentences say whether there is anything to agree to. So each key that can widen
// has one, and where a comparison is not simple, a change counts as a widening.
func (l *Loaded) Widens(passed func(name string) bool) ([]string, error) {
	if l == nil || l.base == nil {
		return nil, nil
	}
	w := widening{l: l, was: l.base.Config, is: l.Config, passed: passed}
	w.wall()
	w.limits()
	w.env()
	w.masks()
	w.git()
	w.agents()
	for _, step := range []func() error{w.image, w.mounts, w.home, w.network} {
		if err := step(); err != nil {
			return nil, err
		}
	}
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

// when adds a sentence under a condition.
func (w *widening) when(wider bool, format string, args ...any) {
	if wider {
		w.add(format, args...)
	}
}

// each adds a sentence for each item of a list that another has not.
func each[T comparable](w *widening, was, is []T, format string) {
	for _, item := range is {
		w.when(!slices.Contains(was, item), format, item)
	}
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
	// consentOrder is how far what the host does for a sandbox may go without the user.
	consentOrder = []string{"deny", "ask", "allow"}
)

func (w *widening) wall() {
	w.when(w.was.Sandbox == "require" && w.is.Sandbox == "auto", "sandbox: a weaker wall is taken where the best cannot be had, and you require it")
	w.when(rank(w.is.Isolation, isolationOrder...) < rank(w.was.Isolation, isolationOrder...), "isolation: the wall may be %s, where you have %s", w.is.Isolation, w.was.Isolation)
	w.when(w.is.Nesting && !w.was.Nesting, "nesting: programs may make namespaces, behind a weaker wall")
	w.when(rank(w.is.Workspace.Mode, workspaceOrder...) > rank(w.was.Workspace.Mode, workspaceOrder...), "workspace: the directory is shown as %s, where you have %s", w.is.Workspace.Mode, w.was.Workspace.Mode)
}

// image: what is in it stays inside; but the host fetches it, as the user.
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

// limits: a limit of the user's cannot be raised without a yes.
func (w *widening) limits() {
	was, is := w.was.Limits, w.is.Limits
	higher := func(name string, was, is float64, wasText, isText any) {
		unlimited := func(n float64) float64 {
			if n == 0 {
				return math.Inf(1)
			}
			return n
		}
		w.when(unlimited(is) > unlimited(was), "limits: %s is %v, where you have %v", name, isText, wasText)
	}
	memory := func(s string) float64 { n, _ := limits.ParseMemory(s); return float64(n) }
	timeout := func(s string) float64 { d, _ := parseTime(s); return d.Seconds() }
	higher("memory", memory(was.Memory), memory(is.Memory), was.Memory, is.Memory)
	higher("pids", float64(was.Pids), float64(is.Pids), was.Pids, is.Pids)
	higher("cpus", was.CPUs, is.CPUs, was.CPUs, is.CPUs)
	higher("open_files", float64(was.OpenFiles), float64(is.OpenFiles), was.OpenFiles, is.OpenFiles)
	higher("timeout", timeout(was.Timeout), timeout(is.Timeout), was.Timeout, is.Timeout)
	w.when(kept(is.KeepFree) < kept(was.KeepFree), "limits: programs leave %s of a disk free, where you have %s", is.KeepFree, was.KeepFree)
}

// kept is how many bytes of a disk are kept free.
func kept(text string) int64 {
	n, _ := limits.ParseKeepFree(text)
	return n
}

// env: what programs and daemons get of the user's variables and secrets.
func (w *widening) env() {
	for _, name := range w.is.Env.Pass {
		prefix, any := strings.CutSuffix(name, "*")
		switch {
		case slices.Contains(w.was.Env.Pass, name) || !any && w.passed(name):
		case any:
			w.add("environment: your variables whose names begin with %s are passed on", prefix)
		default:
			w.add("environment: your variable %s is passed on", name)
		}
	}
	w.reads(w.was.Env.Set, w.is.Env.Set, "")
	for _, name := range slices.Sorted(maps.Keys(w.is.Daemons)) {
		w.reads(w.was.Daemons[name].Env, w.is.Daemons[name].Env, " of the daemon "+name)
	}
}

// reads is about the variables and secrets that templates take from the host. A variable
// stands for the secret of its name as well, while it is not set; but for those that go into
// every sandbox. What is agreed to must not depend on what happens to be set now.
func (w *widening) reads(was, is map[string]string, of string) {
	for _, in := range slices.Sorted(maps.Keys(is)) {
		if was[in] == is[in] {
			continue
		}
		read, _ := secret.Mentions(is[in])
		slices.SortFunc(read, func(a, b secret.Ref) int {
			return strings.Compare(fmt.Sprint(a.Name, a.Secret), fmt.Sprint(b.Name, b.Secret))
		})
		for _, r := range slices.Compact(read) {
			switch {
			case r.Secret:
				w.add("secrets: your secret %s is given to programs, in %s%s", r.Name, in, of)
			case w.passed(r.Name):
			case covered(r.Name, w.was.Env.Pass):
				w.add("secrets: your secret %s is given to programs where your variable of that name is not set, in %s%s", r.Name, in, of)
			default:
				w.add("environment: your variable %s, or else your secret of that name, is passed on, in %s%s", r.Name, in, of)
			}
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

func (w *widening) masks() {
	for _, r := range w.l.MasksShown() {
		w.add("masks: programs can see files that are hidden otherwise, by the line %s of %s", r.Text, r.From)
	}
}

// mounts name the real place, which may change while the file stays the same.
func (w *widening) mounts() error {
	was, problems := w.l.base.mounts()
	is, more := w.l.mounts()
	if err := append(problems, more...).tidy(); err != nil {
		return err
	}
	for _, m := range is {
		had := slices.ContainsFunc(was, func(o mount) bool { return o.Mount == m.Mount && o.missing == m.missing })
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

// home: every file of the user's is more than a sandbox has by itself.
func (w *widening) home() error {
	was, problems := w.l.base.given()
	is, more := w.l.given()
	if err := append(problems, more...).tidy(); err != nil {
		return err
	}
	for _, m := range is {
		if slices.ContainsFunc(was, func(o mount) bool { return o.Mount == m.Mount }) {
			continue
		}
		really, looks, what, within := "", "", "file", ""
		if m.dir {
			what, within = "directory", "/."
		}
		if m.Source != m.Target {
			really = ", which is " + m.Source
		}
		if looksSecret(m.Target+within) || looksSecret(m.Source+within) {
			looks = "; it looks like a secret"
		}
		w.add("home: programs can read your %s %s%s%s", what, m.name, really, looks)
	}
	w.when(w.was.Home.withoutGit() && !w.is.Home.withoutGit(), "home: programs can read your git aliases and styles")
	each(w, w.l.base.cacheNames(), w.l.cacheNames(), "caches: programs can read your %s cache")
	return nil
}

// git: ignored files are where secrets are, and a push is heard far away.
func (w *widening) git() {
	was, is := w.was.Git, w.is.Git
	more := func(what, was, is string) {
		w.when(rank(is, consentOrder...) > rank(was, consentOrder...), "git: %s %s, where you have %s", what, is, was)
	}
	more("pushes are", was.Push, is.Push)
	more("fetches from your remote are", was.Upstream, is.Upstream)
	more("what gh changes with your login is", was.GH, is.GH)
	more("what gh reads with your login is", was.GHRead, is.GHRead)
	w.when(is.Nested == sandbox.NestedOpen && was.Nested != sandbox.NestedOpen, "git: hooks and config of repositories below the workspace can be changed")
	w.when(is.Take && !was.Take, "git: your branch moves to what is committed inside")
	each(w, was.PushPatterns, is.PushPatterns, "git: branches upstream called %s may be pushed to")
	each(w, was.Copy, is.Copy, "git: your file %s, which git ignores, is copied into new worktrees")
}

func (w *widening) network() error {
	was, is := w.was.Network, w.is.Network
	w.when(rank(is.Mode, networkOrder...) > rank(was.Mode, networkOrder...), "network: the mode is %s, where you have %s", is.Mode, was.Mode)
	w.when(is.Default != was.Default && is.Default != "deny", "network: what no rule is about has the answer %s", is.Default)
	had, err := policy.Stack{Mode: was.Mode, Rules: w.was.sources(w.l.base.tree)}.Compile(policy.Source{})
	if err != nil {
		return err
	}
	for _, g := range is.Groups {
		name := "@" + strings.TrimPrefix(g, "@")
		w.when(len(had.Beyond(policy.RuleSource{Allow: []string{name}})) > 0, "network: the hosts of the group %s can be reached", name)
	}
	for i, r := range is.Rules {
		// Merging leaves the user's rules where they were, changed or not.
		mine := i < len(was.Rules)
		if mine && reflect.DeepEqual(was.Rules[i], r) {
			continue
		}
		w.when(mine, "network: your own rule %s is changed", r.Name)
		if beyond := had.Beyond(r); len(beyond) > 0 {
			w.add("network: allow %s", strings.Join(spelled(beyond), ", "))
		}
	}
	each(w, was.HostPorts, is.HostPorts, "network: port %s of this machine can be reached")
	each(w, was.Publish, is.Publish, "network: a port of this machine leads inside, %s")
	each(w, was.SocketIn, is.SocketIn, "network: programs can talk to whatever listens on the socket %s of this machine")
	each(w, was.SocketOut, is.SocketOut, "network: a socket inside can be reached on this machine, %s")
	return nil
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

// agents: what a repository says about one decides which program gets the user's
// credentials for it.
func (w *widening) agents() {
	for _, name := range slices.Sorted(maps.Keys(w.is.Agents)) {
		is := w.is.Agents[name]
		if !is.off() && !reflect.DeepEqual(is, w.was.Agents[name]) {
			w.add("agents: %s is what the file says, with your credentials for it: %s", name, is.describe(name))
		}
	}
}

// describe is the command of an agent, and what it gets of the user's.
func (a Agent) describe(name string) string {
	words := append([]string{cmp.Or(a.Command, name)}, a.Args...)
	for _, list := range [][]string{a.Credentials, a.Pass, a.State, a.Hosts} {
		words = append(words, list...)
	}
	return strings.Join(append(words, a.Package), " ")
}
