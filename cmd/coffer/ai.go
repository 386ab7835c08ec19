package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// aiFlags are what 'coffer ai' was asked for.
type aiFlags struct {
	settings
	tree       treeFlags
	idle       time.Duration
	match      string
	create     bool
	fresh      bool
	headless   bool
	promptFile string
	number     int
	rm         bool
	chosen     bool // the user has just chosen the agent: it becomes the usual one

	agent  string // by name, "" for the usual one
	prompt string
	extra  []string
}

func aiCommand() *cobra.Command {
	var f aiFlags
	c := &cobra.Command{
		Use:   "ai [AGENT] [PROMPT] [flags] [-- ARG…]",
		Args:  cobra.ArbitraryArgs,
		Short: "Run a coding agent in a sandbox, with its questions off",
		Long: `Run a coding agent in a sandbox that stays: claude, codex, gemini, opencode, pi, or one
that a config file describes. It asks nothing before it acts; the sandbox is the limit.

In a git repository the agent works in a worktree, on a branch of its own, on which its
commits appear. With a PROMPT, or --create, the sandbox is new. With -m it is one that
exists, and the conversation in it goes on. Otherwise you choose. Without a terminal, or
with --detach, the agent does what the PROMPT says and ends. On a terminal it goes on if
that is closed, or you leave with Ctrl-\ twice: come back with 'coffer attach'. With
--detach --tty it begins like that.

What follows -- goes to the agent as it is.`,
		Example: `  coffer ai
  coffer ai claude "fix issue 42"
  coffer ai -m big-refactor
  coffer ai --create codex -- --model gpt-5
  coffer ai --detach -n 3 "make the tests faster"`,
		ValidArgsFunction: completeAgent,
		RunE: func(c *cobra.Command, args []string) error {
			if at := c.ArgsLenAtDash(); at >= 0 {
				args, f.extra = args[:at], args[at:]
			}
			return ai(c, &f, args)
		},
	}
	f.settings.addTo(c)
	f.settings.addExecTo(c)
	f.tree.addTo(c, &f.settings)
	flags := c.Flags()
	matchFlag(c, &f.match)
	exclusive(c, "match create", "match number", "detach rm", "number rm", "tty headless")
	flags.BoolVar(&f.create, "create", false, "make a new sandbox")
	addIdleTo(flags, &f.idle, "stop a new sandbox when nothing has run in it for this `TIME`")
	flags.BoolVar(&f.fresh, "fresh", false, "begin a new conversation in a sandbox that exists")
	flags.BoolVar(&f.headless, "headless", false, "do what the prompt says and end, on a terminal too")
	flags.StringVar(&f.promptFile, "prompt-file", "", "read the prompt from a `FILE`, - for standard input")
	flags.IntVarP(&f.number, "number", "n", 1, "do the same in `N` new sandboxes side by side, detached;\nwithout --name, the prompt names them")
	flags.BoolVar(&f.rm, "rm", false, "remove the sandbox afterwards if nothing in it would be lost")
	return c
}

func ai(c *cobra.Command, f *aiFlags, args []string) error {
	if err := outsideOnly(); err != nil {
		return err
	}
	conf, err := loadHere()
	if err != nil {
		return err
	}
	all := conf.Known()
	if err := f.words(all, args); err != nil {
		return err
	}
	if err := f.check(c); err != nil {
		return err
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	sb, err := f.sandbox(c, store)
	if err != nil {
		return err
	}
	a, err := f.which(c, conf, all, sb)
	if err != nil {
		return err
	}
	if sb != nil {
		return f.goOn(c, sb, a)
	}
	return f.begin(c, store, a)
}

func (f *aiFlags) words(all []*agent.Agent, args []string) (err error) {
	if len(args) > 0 && agent.Find(all, args[0]) != nil {
		f.agent, args = args[0], args[1:]
	}
	f.prompt = first(args)
	like := ""
	if len(f.prompt) > 4 && f.agent == "" && !strings.ContainsAny(f.prompt, " \n") {
		like = ui.Nearest(f.prompt, agent.Names(all))
	}
	switch {
	case like != "":
		return ui.Hint(usagef("there is no agent %q", f.prompt), "did you mean 'coffer ai %s'? For a prompt of one word, name the agent before it", like)
	case len(args) > 1 && f.agent == "":
		return ui.Hint(usagef("there is no agent %q", f.prompt), "there are %s; a prompt is one argument, in quotes", agentNames(all))
	case len(args) > 1:
		return ui.Hint(usagef("the prompt is in %d arguments", len(args)), "put it in quotes; arguments for the agent go after --")
	case f.promptFile != "" && f.prompt != "":
		return usagef("there is a prompt and a --prompt-file: want one of them")
	case f.promptFile != "":
		f.prompt, err = readPrompt(f.promptFile)
	}
	return err
}

// maxPrompt is what the kernel lets pass as one argument, less some room.
const maxPrompt = 120 << 10

func readPrompt(name string) (string, error) {
	in, err := os.Stdin, error(nil)
	if name != "-" {
		in, err = os.Open(name)
	}
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxPrompt+1))
	if err == nil && strings.TrimSpace(string(data)) == "" {
		return "", usagef("there is no prompt in %s: it is empty", name)
	}
	return string(data), err
}

// check refuses flags that do not go together, and sets those that follow from others.
func (f *aiFlags) check(c *cobra.Command) error {
	if len(f.prompt) > maxPrompt || strings.ContainsRune(f.prompt, 0) {
		return ui.Hint(usagef("the prompt is too long for a command line, or has a NUL in it"), "put the text into a file of the repository, and name that in the prompt")
	}
	f.create = f.create || f.number != 1
	if f.match != "" && !f.create {
		if err := atCreation(c); err != nil {
			return err
		}
	}
	f.create = f.create || slices.ContainsFunc(decidedAtCreation, c.Flags().Changed)
	switch {
	case f.number < 1 || f.number > 100:
		return usagef("-n %d: want a number from 1 to 100", f.number)
	case f.fresh && f.create:
		return usagef("--fresh is about a sandbox that exists")
	}
	f.detach = f.detach || f.number > 1
	onTerminal := terminal.IsTerminal(0) && terminal.IsTerminal(1)
	f.headless = f.headless || f.detach && !f.tty || !f.detach && !onTerminal
	f.keep = !f.headless
	if f.headless && f.prompt == "" && len(f.extra) == 0 {
		return ui.Hint(usagef("an agent that runs by itself must be told what to do"), "give it a prompt: coffer ai AGENT \"PROMPT\", or --prompt-file")
	}
	return nil
}

// sandbox is the one that exists and is meant, nil for a new one.
func (f *aiFlags) sandbox(c *cobra.Command, store *sandbox.Store) (*sandbox.Sandbox, error) {
	switch {
	case f.match != "":
		return forExec.choose(store, f.match)
	case f.create || f.prompt != "":
		return nil, nil
	}
	return chooseSandbox(c, store)
}

// which finds the agent to start: the one named, the sandbox's last, the default, or the one that the user picks now.
func (f *aiFlags) which(c *cobra.Command, conf *config.Loaded, all []*agent.Agent, sb *sandbox.Sandbox) (*agent.Agent, error) {
	name := f.agent
	if name == "" && sb != nil {
		if t, err := agent.ReadTrace(sb.Dir()); err == nil {
			name = t.Agent
		}
	}
	name = cmp.Or(name, conf.Config.AI.Agent)
	if name == "" {
		a, err := chooseAgent(c, all)
		f.chosen = err == nil
		return a, err
	}
	if a := agent.Find(all, name); a != nil {
		return a, nil
	}
	return nil, ui.Error(fmt.Sprintf("there is no agent %q any more", name), "name another: "+agentNames(all))
}

func (f *aiFlags) begin(c *cobra.Command, store *sandbox.Store, a *agent.Agent) error {
	l := listen(c)
	defer l.stop()
	var made []string
	if f.detach && terminal.IsTerminal(1) {
		f.left = func(sb *sandbox.Sandbox) {
			made = append(made, sb.Name)
			fmt.Fprintln(stdout, leftAt(sb.Name, branchOf(sb)))
		}
	}
	for i, name := range f.names(store, a) {
		one := *f
		one.name, one.told = name, i > 0
		if i > 0 && one.tree.branch != "" {
			one.tree.branch = fmt.Sprintf("%s-%d", f.tree.branch, i+1)
		}
		if err := one.beginOne(c, l, store, a); err != nil {
			return err
		}
	}
	if len(made) > 1 {
		fmt.Fprintf(stdout, "compare them with 'coffer ls' and 'coffer diff %s %s'\n", made[0], made[1])
	}
	return nil
}

// names are those of new sandboxes. Several without a name have the first words of the prompt.
func (f *aiFlags) names(store *sandbox.Store, a *agent.Agent) (names []string) {
	if f.number == 1 {
		return []string{f.name}
	}
	base, first := f.name, 1
	if base == "" {
		base = cmp.Or(slug(f.prompt), a.Name)
		all, _ := store.List()
		for _, sb := range all {
			number, ok := strings.CutPrefix(sb.Name, base+"-")
			if n, err := strconv.Atoi(number); ok && err == nil && n < 10000 {
				first = max(first, n+1)
			}
		}
	}
	for i := range f.number {
		names = append(names, fmt.Sprintf("%s-%d", base, first+i))
	}
	return names
}

// slug makes a name of the first words of a text, as far as they have letters that names have.
func slug(text string) string {
	const most = 24
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := ""
	for _, w := range words[:min(4, len(words))] {
		if len(name)+1+len(w) > most {
			break
		}
		name = strings.Trim(name+"-"+w, "-")
	}
	return name
}

// leftAt says where an agent is that was left to itself, and how to come to it.
func leftAt(name, branch string) string {
	line := name
	if branch != "" {
		line += " on " + branch
	}
	return terminal.Escape(fmt.Sprintf("%s: 'coffer attach %s' watches, 'coffer diff %s' shows what it did", line, name, name))
}

func branchOf(sb *sandbox.Sandbox) string {
	b, err := git.Open(sb.Dir())
	if err != nil {
		return ""
	}
	return b.Branch
}

func completeAgent(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	conf, _ := loadHere() // of a broken config, those that coffer knows
	return agent.Names(conf.Known()), cobra.ShellCompDirectiveNoFileComp
}
