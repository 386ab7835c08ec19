package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/policy"
)

// Facts are what is true of a sandbox, for the text that its agent reads.
type Facts struct {
	Name, ID  string
	Dir       string   // where the agent works
	Workspace string   // direct, cow, none or worktree
	Git       bool     // there is a git directory of the sandbox's own
	Branch    string   // on which its commits come out
	Upstream  bool     // git fetch upstream gets what the user's remote has
	GH        []string // the verbs of gh for pull requests, runs and issues, if it is there
	Included  []string // where worktrees of other repositories are
	Policy    *policy.Set
	Forwards  []string // ports of the host and where they lead, as "HOST:INSIDE"
	HostPorts []string // ports of the host that can be reached
	Caches    []string // package managers whose caches begin with what the user's have
	Memory    int64
	Timeout   string
}

// Text is what the agent is told. Every sentence is tested against a real sandbox; keep
// it so, and keep it short: it is part of every conversation.
func (f Facts) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "- "+format+"\n", args...) }
	fmt.Fprintf(&b, "# Where you are\n\nYou are in a Coffer sandbox named %s (id %s), made for you. Nothing asks before you act: the sandbox is the limit, so just do what the task needs.\n\n## Files\n\n", f.Name, f.ID)
	f.files(line)
	for _, dir := range f.Included {
		line("%s is a worktree of another repository, with a branch of its own: commit there what belongs there.", dir)
	}
	if f.Upstream {
		line("`git fetch upstream` has the user's repository fetch from its remote first, and gets the remote's branches as `upstream/BRANCH`; it may have to wait for the user's yes.")
	}
	if len(f.GH) == 3 {
		line("`gh` is run by the user's machine, with the user's login, for this repository only: `gh pr %s`, `gh run %s`, `gh issue %s`. It changes only pull requests of branches that you have pushed, so `git push` comes first; both may have to wait for the user's yes.", f.GH[0], f.GH[1], f.GH[2])
	}
	line("Your home is this sandbox's own. It stays, with what you install and cache there, and other sandboxes do not see it. The user's own home, keys and other projects are not here.")
	if len(f.Caches) > 0 {
		line("These package managers find in their caches what the user has downloaded with them: %s. What you add there stays in this sandbox.", strings.Join(f.Caches, ", "))
	}
	line("`sudo` works without a password and makes you root of this sandbox only. Install what you need; the user's machine does not change. What root changes outside of the home and the working directory stays in this sandbox too.")
	fmt.Fprint(&b, "\n## Network\n\n")
	f.network(line)
	fmt.Fprint(&b, "\n## Ports\n\n")
	for _, p := range f.Forwards {
		host, inside, _ := strings.Cut(p, ":")
		line("The user reaches port %s in here as localhost:%s.", inside, host)
	}
	for _, p := range f.HostPorts {
		line("Port %s of the user's machine is host.coffer.internal:%s in here.", p, p)
	}
	line("To show the user a server that you started here on port PORT, tell them to run: `coffer port-forward %s PORT`", f.Name)
	if f.Memory > 0 || f.Timeout != "" {
		fmt.Fprint(&b, "\n## Limits\n\n")
		if f.Memory > 0 {
			line("Memory: %d MiB for everything together.", f.Memory>>20)
		}
		if f.Timeout != "" {
			line("The sandbox ends %s after it was started.", f.Timeout)
		}
	}
	b.WriteString("\n`coffer status` tells this again.\n")
	return b.String()
}

func (f Facts) files(line func(string, ...any)) {
	switch f.Workspace {
	case "worktree":
		line("You work in %s, a git worktree of its own on the branch `%s`.", f.Dir, f.Branch)
		line("Commit as you go. Commits on `%s` appear on the same branch of the user's repository by themselves, also while you work: there is nothing to push. Other branches that you make appear there as `coffer/%s@BRANCH`. Tags and stashes are named to the user when your turn ends.", f.Branch, f.Name)
		line("`origin` is the user's repository: `git fetch origin` gets its branches and tags.")
	case "cow":
		line("You work in %s, a copy of the user's directory. What you write is kept apart until the user takes it with `coffer apply`.", f.Dir)
		f.commits(line)
	case "direct":
		line("You work in %s, the user's own directory. What you write there is there for the user at once. Settings that make programs outside run code, such as `.vscode` and `.husky`, are read-only.", f.Dir)
		f.commits(line)
	default:
		line("There is no project here. Work in your home.")
	}
}

// commits is about a directory of the user's.
func (f Facts) commits(line func(string, ...any)) {
	if f.Git {
		line("Git works, in a git directory of this sandbox's own that began as the user's. What you commit appears in the user's repository as the branch `%s`; the user's own branch and index stay as they are.", f.Branch)
	}
}

func (f Facts) network(line func(string, ...any)) {
	if f.Policy == nil {
		line("There is none. Work with what is here.")
		return
	}
	var open []string
	for _, g := range policy.Groups() {
		if len(f.Policy.Beyond(policy.RuleSource{Allow: []string{"@" + g.Name}})) == 0 {
			open = append(open, g.Name)
		}
	}
	slices.Sort(open)
	switch f.Policy.Default() {
	case policy.Allow:
		line("Every public host can be reached, but for those that the rules deny. The user's machine and private networks cannot.")
	case policy.Ask:
		line("What no rule allows, the user is asked about: the connection waits for the answer, for two minutes at most.")
	default:
		line("What no rule allows is refused at once: a name is not found, a connection is reset, an HTTP request gets a 403 that says why. Trying again does not help, nor does another way round.")
	}
	if len(open) > 0 && f.Policy.Default() != policy.Allow {
		line("These groups of hosts are allowed: %s.", strings.Join(open, ", "))
	}
	line("`curl http://coffer.internal/` lists the rules and what was refused lately.")
	line("To ask for a host: `curl -X POST 'http://coffer.internal/request?host=HOST&port=443'`. It answers allowed, denied, or asked: then the user has been asked, and the same request tells the answer later. The user can also run: `coffer policy allow HOST --sandbox %s`", f.Name)
}
