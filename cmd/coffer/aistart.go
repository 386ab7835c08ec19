package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/origin"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

func agentHost() agent.Host {
	return agent.Host{Home: sandbox.Me().Home, Tools: filepath.Join(dataDir(), "tools"), Variable: os.Getenv}
}

// dataDir is where coffer keeps what is not a sandbox. No sandbox sees it.
func dataDir() string {
	dir, err := sandbox.DefaultDir()
	if err != nil {
		return ""
	}
	return filepath.Dir(dir)
}

func logins() *agent.Store { return agent.OpenStore(loginsDir()) }

func loginsDir() string { return filepath.Join(dataDir(), "logins") }

// locate finds the agent on this machine or in an image, or installs it. Only then does a choice become the default.
func (f *aiFlags) locate(c *cobra.Command, from sandbox.Image, a *agent.Agent) (*agent.Place, error) {
	find := func() (*agent.Place, error) { return a.Locate(agentHost()) }
	if !from.None() {
		found, err := images().Get(from.Digest)
		if err != nil {
			return nil, err
		}
		find = func() (*agent.Place, error) {
			return a.LocateIn(agentHost(), agent.Image{Name: from.Ref, Look: found.Look})
		}
	}
	place, err := find()
	if errors.Is(err, agent.ErrNotHere) {
		if err = install(c, a); err == nil {
			place, err = find()
		}
	}
	if err != nil {
		return nil, err
	}
	if a.TooOld(place.Version) {
		warn(fmt.Sprintf("%s %s is older than %s, so not all of it may be right; see 'coffer agents update'", a.Name, place.Version, a.Least))
	}
	if f.chosen {
		places, err := placesHere()
		if err == nil {
			err = places.RememberAgent(a.Name)
		}
		report(err) // it can be asked again
	}
	return place, nil
}

func (f *aiFlags) beginOne(c *cobra.Command, l *listener, store *sandbox.Store, a *agent.Agent) error {
	var place *agent.Place
	f.also = func(rec *sandbox.Record) (err error) {
		if place, err = f.locate(c, rec.Image, a); err != nil {
			return err
		}
		return furnishFor(a, place, rec)
	}
	words := []string{a.Name}
	if f.prompt != "" {
		words = append(words, f.prompt)
	}
	sb, line, err := newSandbox(l, store, &f.settings, &f.tree, f.idle, words)
	if errors.Is(err, sandbox.ErrExists) {
		return ui.Hint(err, "go on in it with 'coffer ai -m %s', or choose another name", f.name)
	}
	if err != nil {
		return err
	}
	defer line.Close()
	argv, err := f.prepare(sb, a, place, false)
	if err != nil {
		return err
	}
	end := f.announce(sb, a)
	return end(execOn(l, line, sb, f.settings, argv))
}

func furnishFor(a *agent.Agent, place *agent.Place, rec *sandbox.Record) error {
	for _, dir := range place.Show {
		rec.Mounts = append(rec.Mounts, sandbox.Mount{Source: dir, Target: dir, ReadOnly: true})
	}
	rec.Mounts = inOrder(rec.Mounts)
	if len(a.Hosts) > 0 && !rec.Network.None() {
		rec.Network.Rules = append(rec.Network.Rules, agentHosts(a))
	}
	return nil
}

func agentHosts(a *agent.Agent) policy.Source {
	return policy.Source{Rules: []policy.RuleSource{{Name: "agent-" + a.Name, Allow: a.Hosts}}, Origin: "agent " + a.Name}
}

func (f *aiFlags) goOn(c *cobra.Command, sb *sandbox.Sandbox, a *agent.Agent) error {
	if err := refuseHalf(sb); err != nil {
		return err
	}
	if runs, last := stillRuns(sb); runs == a.Name && !f.fresh {
		return f.comeBack(c, sb, a, last)
	}
	place, err := f.locate(c, sb.Image, a)
	if err != nil {
		return err
	}
	if err := show(c.Context(), sb, a, place); err != nil {
		return err
	}
	line, err := supervisor.Reach(c.Context(), sb, nil) // a start makes its home, and lays files there
	if err != nil {
		return err
	}
	defer line.Close()
	f.dir = sandbox.StartDir(sb)
	argv, err := f.prepare(sb, a, place, !f.fresh)
	if err != nil {
		return err
	}
	end := f.announce(sb, a)
	return end(execIn(c, sb, f.settings, argv))
}

// stillRuns returns the agent that runs in a sandbox on a terminal of its own, and whether attach would join it.
func stillRuns(sb *sandbox.Sandbox) (agentName string, last bool) {
	t, err := agent.ReadTrace(sb.Dir())
	if err != nil || t.Program == "" {
		return "", false
	}
	line, err := wire.Connect(sb)
	if err != nil {
		return "", false
	}
	defer line.Close()
	st, err := line.Status(false)
	if err != nil || !slices.Contains(st.Programs, t.Program) {
		return "", false
	}
	return t.Agent, st.Programs[len(st.Programs)-1] == t.Program
}

// comeBack is for an agent that still runs: a second one would talk in the same conversation.
func (f *aiFlags) comeBack(c *cobra.Command, sb *sandbox.Sandbox, a *agent.Agent, last bool) error {
	if !last || f.detach || f.prompt != "" || len(f.extra) > 0 {
		return ui.Error(fmt.Sprintf("%s still runs in sandbox %s", a.Name, sb.Name),
			fmt.Sprintf("go back to it with 'coffer attach %s', or begin another conversation beside it with --fresh", sb.Name))
	}
	fmt.Fprintf(os.Stderr, "coffer: %s still runs in sandbox %s\n", a.Name, sb.Name)
	return comeBack(c, sb)
}

// show mounts the agent in a sandbox that was made for something else. An idle one is stopped for that.
func show(ctx context.Context, sb *sandbox.Sandbox, a *agent.Agent, place *agent.Place) error {
	var missing []sandbox.Mount
	for _, dir := range place.Show {
		m := sandbox.Mount{Source: dir, Target: dir, ReadOnly: true}
		if !slices.Contains(sb.Mounts, m) {
			missing = append(missing, m)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	lock, err := lockIdle(ctx, sb)
	if err != nil {
		return err
	}
	defer lock.Release()
	sb.Mounts = inOrder(append(sb.Mounts, missing...))
	return sb.Save()
}

// prepare writes what the agent finds in its home, and returns how it is started.
func (f *aiFlags) prepare(sb *sandbox.Sandbox, a *agent.Agent, place *agent.Place, resume bool) ([]string, error) {
	home, err := agent.OpenHome(sb.Home())
	if err != nil {
		return nil, err
	}
	defer home.Close()
	where := sandbox.Me().Home
	certificates, err := trustToo(home, where, a)
	if err != nil {
		return nil, err
	}
	dir := cmp.Or(f.dir, sb.Workspace.Path, where)
	facts, err := factsOf(sb, dir)
	if err != nil {
		return nil, err
	}
	scene := agent.Scene{
		Home: where, Dir: dir, Guide: filepath.Join(where, agent.Guide), Text: facts.Text(), Has: home.Has,
		Variable: given(a, sb, slices.Concat(certificates, f.env)),
	}
	if err := furnishHome(sb, home, a, scene); err != nil {
		return nil, err
	}
	if !f.told {
		adviseLogin(a, home, scene.Variable, sb.EnvFrom)
	}
	path, err := pathFor(place, sb)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(a.Variables(os.LookupEnv), func(e string) bool { // the sandbox has a value of its own for it
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(sb.Env, func(kept string) bool { return strings.HasPrefix(kept, name+"=") })
	})
	f.env = slices.Concat(own, certificates, path, f.env)
	t := agent.Trace{Agent: a.Name, Last: time.Now(), Prompt: agent.Brief(f.prompt, 200), Program: place.Program, Credentials: a.Credentials, Store: loginsDir()}
	if err := t.Write(sb.Dir()); err != nil {
		return nil, err
	}
	return f.argv(home, a, place, scene, resume && home.Talked(a))
}

func furnishHome(sb *sandbox.Sandbox, home *agent.Home, a *agent.Agent, scene agent.Scene) error {
	err := home.Write(agent.Guide, []byte(scene.Text))
	if err == nil {
		err = logins().Seed(a, home, sb.Dir())
	}
	if err != nil || a.Files == nil {
		return err
	}
	for _, file := range a.Files(a, scene) {
		err = cmp.Or(err, home.Put(file))
	}
	return err
}

// argv is how the agent is started: by its program, with the prompt as it wants it.
func (f *aiFlags) argv(home *agent.Home, a *agent.Agent, place *agent.Place, scene agent.Scene, resume bool) ([]string, error) {
	turn := agent.Turn{
		Prompt: f.prompt, Headless: f.headless, Resume: resume, Extra: f.extra,
		Dir: scene.Dir, Guide: scene.Guide, Text: scene.Text, Read: home.Read,
	}
	byInput := a.ByInput && f.headless && f.prompt != ""
	if byInput {
		turn.Prompt = ""
	}
	argv := a.Argv(a, turn)
	argv[0] = place.Program
	if !byInput {
		return argv, nil
	}
	file := filepath.Join(scene.Home, agent.PromptFile)
	return append([]string{"/bin/sh", "-c", `exec "$@" <"$0"`, file}, argv...), home.Write(agent.PromptFile, []byte(f.prompt))
}

// adviseLogin says how to log in if there is neither a login, nor a key, nor a template that makes one.
func adviseLogin(a *agent.Agent, home *agent.Home, variable func(string) string, templates []string) {
	if len(a.Credentials) == 0 || len(a.Login) == 0 || slices.ContainsFunc(a.Credentials, func(c agent.Credential) bool { return home.Has(c.Name) }) {
		return
	}
	for _, name := range a.Pass {
		made := slices.ContainsFunc(templates, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if isKey(name) && (made || variable(name) != "") {
			return
		}
	}
	also := ""
	if len(agent.Imports(a, agentHost())) > 0 {
		also = ", or have your own login copied with --import"
	}
	fmt.Fprintf(os.Stderr, "coffer: %s is not logged in: 'coffer login %s' does it for all sandboxes%s\n", a.Name, a.Name, also)
}

// isKey says whether a variable is one by which programs prove who they are.
func isKey(name string) bool {
	return strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_TOKEN")
}

func factsOf(sb *sandbox.Sandbox, dir string) (agent.Facts, error) {
	facts := agent.Facts{Name: sb.Name, ID: sb.ID, Dir: dir, Workspace: sb.Workspace.Mode, Memory: sb.Limits.Memory}
	if b, err := git.Open(sb.Dir()); err == nil {
		facts.Branch, facts.Git = b.Branch, true
		facts.Upstream = b.State.Upstream && sb.Git.Upstream != "deny" && !sb.Network.None()
		if b.State.Upstream && sb.Git.GH != "deny" && sb.Git.GHRead != "deny" && !sb.Network.None() && hasGH(sb, b) {
			facts.GH = []string{origin.Verbs("pr"), origin.Verbs("run"), origin.Verbs("issue")}
		}
	}
	for _, b := range git.Included(sb.Dir()) {
		facts.Included = append(facts.Included, b.At())
	}
	if sb.Limits.Timeout > 0 {
		facts.Timeout = sb.Limits.Timeout.String()
	}
	for _, p := range sb.Forwards {
		if p.Host != 0 {
			facts.Forwards = append(facts.Forwards, fmt.Sprintf("%d:%d", p.Host, p.Inside))
		}
	}
	for _, p := range sb.Network.HostPorts {
		facts.HostPorts = append(facts.HostPorts, fmt.Sprint(p.Inside))
	}
	for _, c := range sb.Caches {
		if name, _, _ := strings.Cut(c.Name, "-"); !slices.Contains(facts.Caches, name) {
			facts.Caches = append(facts.Caches, name)
		}
	}
	var err error
	if !sb.Network.None() {
		facts.Policy, _, err = network.Policy(sb)
	}
	return facts, err
}

func hasGH(sb *sandbox.Sandbox, b *git.Bridge) bool {
	reach := sb.Writes()
	if _, err := origin.Look(b.Writable(reach)); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	_, err := origin.OnGitHub(ctx, b, reach)
	return err == nil
}

// given finds a variable that the agent will have: the last of that name counts.
func given(a *agent.Agent, sb *sandbox.Sandbox, extra []string) func(string) string {
	values := map[string]string{}
	for _, e := range slices.Concat(a.Variables(os.LookupEnv), sb.Env, extra) {
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			value = os.Getenv(name)
		}
		values[name] = value
	}
	return func(name string) string { return values[name] }
}

// trustToo has the agent trust the authorities that the user's own programs trust by a variable.
func trustToo(home *agent.Home, where string, a *agent.Agent) (env []string, err error) {
	file := ""
	for _, name := range slices.Concat(a.CA, []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"}) {
		file = cmp.Or(file, os.Getenv(name))
	}
	if file == "" || len(a.CA) == 0 {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificates that your environment names: %w", err)
	}
	const name = agent.Managed + "/ca.pem"
	for _, v := range a.CA {
		env = append(env, v+"="+filepath.Join(where, name))
	}
	return env, home.Write(name, data)
}

// pathFor puts what the agent needs in front of the PATH that programs of the sandbox have.
func pathFor(place *agent.Place, sb *sandbox.Sandbox) (env []string, err error) {
	e, err := sandbox.NewExec(sb, []string{place.Program}, nil, false)
	if err != nil {
		return nil, err
	}
	var have []string
	for _, v := range e.Env {
		if path, ok := strings.CutPrefix(string(v), "PATH="); ok {
			have = filepath.SplitList(path)
		}
	}
	own := rootfs.Own + "/bin"
	have = slices.DeleteFunc(have, func(dir string) bool { return dir == own })
	front := slices.DeleteFunc(slices.Clone(place.Path), func(dir string) bool { return slices.Contains(have, dir) })
	return []string{"PATH=" + strings.Join(slices.Concat([]string{own}, front, have), ":")}, nil
}
