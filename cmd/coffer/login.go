package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func loginCommand() *cobra.Command {
	var imports, forget, yes bool
	var from string
	c := &cobra.Command{
		Use:   "login AGENT [-- ARG…]",
		Short: "Log an agent in, for all sandboxes",
		Long: `Log an agent in, for all sandboxes. The agent's own login runs in a sandbox that is made
for it; the files that it leaves are kept for the sandboxes of this agent, where no
sandbox sees them but by a copy. When an agent renews its token, the others get it too.

With --import, the login that you have outside is copied instead. Some services then
end one of the two when the other is renewed. With --from, what was logged in inside a
sandbox is kept.`,
		Example: `  coffer login claude
  coffer login codex --import
  coffer login claude --forget`,
		ValidArgsFunction: completeAgent,
		Args: func(c *cobra.Command, args []string) error {
			if at := c.ArgsLenAtDash(); at != 1 && (at != -1 || len(args) != 1) {
				return ui.Hint(usagef("want the name of one agent"), "see 'coffer agents'")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := outsideOnly(); err != nil {
				return err
			}
			conf, err := loadHere()
			if err != nil {
				return err
			}
			a := agent.Find(conf.Known(), args[0])
			if a == nil {
				return ui.Hint(usagef("there is no agent %q", args[0]), "there are %s", agentNames(conf.Known()))
			}
			if len(a.Credentials) == 0 {
				return ui.Error(fmt.Sprintf("%s has no credentials that could be kept", a.Name), "name its files in the config: [agents."+a.Name+"] credentials = […]")
			}
			switch {
			case forget:
				return logins().Forget(a)
			case imports:
				return importLogin(c, a, yes)
			case from != "":
				sb, err := forName.chosen(from)
				if err != nil {
					return err
				}
				return kept(a, sb)
			}
			return login(c, a, args[1:])
		},
	}
	c.Flags().BoolVar(&imports, "import", false, "copy the login that you have outside")
	c.Flags().StringVar(&from, "from", "", "keep what was logged in inside the sandbox `MATCH`")
	c.Flags().BoolVar(&forget, "forget", false, "forget the login; sandboxes that exist keep their copies")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

// firstIdle is for a sandbox in which one program runs.
const firstIdle = time.Minute

// login runs the agent's login in a sandbox and keeps what it leaves.
func login(c *cobra.Command, a *agent.Agent, extra []string) error {
	if len(a.Login) == 0 {
		return ui.Error(fmt.Sprintf("it is not known how %s logs in", a.Name), "say so in the config, [agents."+a.Name+"] login = […], or use --import")
	}
	if ours(a) && !(terminal.IsTerminal(0) && terminal.IsTerminal(1)) {
		return ui.Error(fmt.Sprintf("%s asks questions to log in, and there is no terminal here", a.Name), "log in on a terminal, or copy the login you have outside with --import")
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	f := aiFlags{idle: firstIdle}
	place, err := f.locate(c, sandbox.Image{}, a)
	if err != nil {
		return err
	}
	f.workspace, f.alone, f.dir, f.image = sandbox.WorkspaceNone, true, "", config.NoImage
	for _, port := range a.LoginPorts {
		f.publish = append(f.publish, fmt.Sprint(port))
	}
	f.also = func(rec *sandbox.Record) error { return furnishFor(a, place, rec) }
	l := listen(c)
	defer l.stop()
	sb, line, err := newSandbox(l, store, &f.settings, &f.tree, f.idle, a.Login)
	if err != nil {
		return err
	}
	defer giveUp(sb)
	defer line.Close()
	quiet := *a
	quiet.Login = nil // it is about to
	if _, err := f.prepare(sb, &quiet, place, false); err != nil {
		return err
	}
	if a.LoginHelp != "" {
		fmt.Fprintf(os.Stderr, "coffer: %s: %s\n", a.Name, a.LoginHelp)
	}
	argv := append([]string{place.Program}, a.Login[1:]...)
	// Whether it worked is seen by what it leaves.
	ran := execOn(l, line, sb, f.settings, append(argv, extra...))
	if code := status(0); ran != nil && !errors.As(ran, &code) {
		return ran
	}
	return kept(a, sb)
}

// kept keeps what a login has left in a sandbox.
func kept(a *agent.Agent, sb *sandbox.Sandbox) error {
	home, err := agent.OpenHome(sb.Home())
	if err != nil {
		return err
	}
	defer home.Close()
	n, err := logins().Keep(a, home)
	if err == nil && n == 0 {
		err = ui.Error(fmt.Sprintf("%s did not log in: it left no credentials", a.Name), "try again, or use --import if you are logged in outside")
	}
	if err == nil {
		fmt.Fprintf(os.Stderr, "coffer: %s is logged in\n", a.Name)
	}
	return err
}

func importLogin(c *cobra.Command, a *agent.Agent, yes bool) error {
	host := agentHost()
	files := agent.Imports(a, host)
	if len(files) == 0 {
		return ui.Error(fmt.Sprintf("%s is not logged in outside either", a.Name), "log in with 'coffer login "+a.Name+"'")
	}
	if !yes {
		for i, f := range files {
			files[i] = fromHome(f)
		}
		question := fmt.Sprintf("Programs in sandboxes of %s could read and use %s. Copy it for them?", a.Name, terminal.Escape(strings.Join(files, ", ")))
		if err := agree(c, question, ui.Hint(usagef("your login was not copied without your yes"), "say --yes, or log in apart with 'coffer login %s'", a.Name)); err != nil {
			return err
		}
	}
	n, err := logins().Import(a, host)
	if err == nil {
		fmt.Fprintf(os.Stderr, "coffer: %s is logged in, by a copy of %s of yours\n", a.Name, count(n, "file"))
	}
	return err
}
