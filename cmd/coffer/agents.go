package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

type describedAgent struct {
	Name      string     `json:"name"`
	Title     string     `json:"title"`
	Installed bool       `json:"installed"`
	Version   string     `json:"version,omitempty"`
	Program   string     `json:"program,omitempty"`
	Own       bool       `json:"installed_by_coffer,omitempty"`
	Default   bool       `json:"default,omitempty"`
	LoggedIn  *time.Time `json:"logged_in,omitempty"` // since when the store has it
	Key       string     `json:"key,omitempty"`       // the variable with a key
	Import    bool       `json:"can_import,omitempty"`
	NoLogin   bool       `json:"needs_no_login,omitempty"` // it has no file to keep one in
}

func agentsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "agents",
		Short: "List the coding agents, their versions, and who is logged in",
		Long: `List the coding agents that 'coffer ai' can run. One that you have installed is used
as it is. Any other is installed when it is first needed, once for all sandboxes, from
npm, by a sandbox that can write nothing else.`,
		Example: "  coffer agents\n  coffer agents update",
		RunE: func(c *cobra.Command, _ []string) error {
			conf, err := loadHere()
			if err != nil {
				return err
			}
			list := describeAgents(conf)
			if asJSON {
				return printJSON(list)
			}
			printAgents(list)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(agentsUpdateCommand())
	return c
}

func describeAgents(conf *config.Loaded) []describedAgent {
	var list []describedAgent
	host, store := agentHost(), logins()
	for _, a := range conf.Known() {
		d := describedAgent{Name: a.Name, Title: a.Title, Default: a.Name == conf.Config.AI.Agent, Import: len(agent.Imports(a, host)) > 0, NoLogin: len(a.Credentials) == 0}
		if since, ok := store.LoggedIn(a); ok {
			d.LoggedIn = &since
		}
		if i := slices.IndexFunc(a.Pass, func(name string) bool { return isKey(name) && os.Getenv(name) != "" }); i >= 0 {
			d.Key = a.Pass[i]
		}
		if place, err := a.Locate(host); err == nil {
			d.Installed, d.Version, d.Program, d.Own = true, place.Version, place.Program, place.Own
		}
		list = append(list, d)
	}
	return list
}

// ours reports whether coffer itself knows an agent's program: any other is only a config file's word.
func ours(a *agent.Agent) bool {
	known := agent.Find(agent.Known(), a.Name)
	return known != nil && known.Command == a.Command
}

func printAgents(list []describedAgent) {
	t := ui.Table{{"AGENT", "NAME", "VERSION", "LOGIN"}}
	for _, d := range list {
		name, version, login := d.Name, "not installed", "no; see 'coffer login "+d.Name+"'"
		if d.Default {
			name += " *"
		}
		if d.Installed {
			version = cmp.Or(d.Version, "installed")
		}
		if d.Own {
			version += " (by coffer)"
		}
		switch {
		case d.LoggedIn != nil:
			login = "since " + d.LoggedIn.Local().Format("2006-01-02")
		case d.Key != "":
			login = "by " + d.Key
		case d.NoLogin:
			login = "not needed"
		case d.Import:
			login = "only outside; see 'coffer login " + d.Name + " --import'"
		}
		t.Add(name, d.Title, version, login)
	}
	_ = t.Print(stdout)
}

func agentsUpdateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "update [AGENT…]",
		Short: "Update the agents that coffer has installed",
		Long: `Install the newest versions of the agents that coffer has installed, or of those that
are named. Sandboxes that run use the new version from the next start of the agent on.
An agent that you have installed yourself is yours to update.`,
		Example:           "  coffer agents update\n  coffer agents update pi",
		ValidArgsFunction: completeAgent,
		RunE: func(c *cobra.Command, args []string) error {
			conf, err := loadHere()
			if err != nil {
				return err
			}
			var all []*agent.Agent
			for _, a := range conf.Known() {
				if place, err := a.Locate(agentHost()); len(args) == 0 && err == nil && place.Own {
					all = append(all, a)
				}
			}
			if len(args)+len(all) == 0 {
				fmt.Fprintln(os.Stderr, "coffer: no agent was installed by coffer")
			}
			var errs []error
			for _, name := range args {
				a := agent.Find(conf.Known(), name)
				if a == nil {
					return usagef("there is no agent %q", name)
				}
				if place, err := a.Locate(agentHost()); err == nil && !place.Own {
					errs = append(errs, ui.Error(fmt.Sprintf("%s is your own, in %s", a.Name, place.Program), "update it as you installed it"))
				} else {
					all = append(all, a)
				}
			}
			for _, a := range all {
				errs = append(errs, install(c, a))
			}
			return errors.Join(errs...)
		},
	}
}

// install runs npm in a sandbox that sees nothing of the user's, ignores the repository's config, and writes to one directory.
func install(c *cobra.Command, a *agent.Agent) error {
	if a.Package == "" {
		return ui.Error(fmt.Sprintf("%s is not installed: there is no program %s", a.Name, a.Command), "install it, or name its npm package in the config: [agents."+a.Name+"] package = …")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return ui.Error(fmt.Sprintf("%s is not installed, and neither is npm, which could do it", a.Name), "install Node.js, which has npm, or "+a.Name+" itself")
	}
	host := agentHost()
	staged, remove, err := agent.Stage(host.Tools, a)
	if err != nil {
		return fmt.Errorf("install %s: %w", a.Name, err)
	}
	defer remove()
	registry := agent.NPMRegistry(host)
	fmt.Fprintf(os.Stderr, "coffer: installing %s from npm, once for all sandboxes …\n", a.Name)
	s := settings{workspace: sandbox.WorkspaceNone, alone: true, image: config.NoImage, mode: mode{sandbox: modeAuto}}
	s.also = func(rec *sandbox.Record) error {
		rec.Mounts = []sandbox.Mount{{Source: staged, Target: staged}}
		if u, err := url.Parse(registry); err == nil && registry != "" {
			rec.Network.Rules = append(rec.Network.Rules, policy.Source{Rules: []policy.RuleSource{{Name: "npm-registry", Allow: []string{u.Hostname()}}}, Origin: "your npm registry"})
		}
		return nil
	}
	args := []string{"npm", "install", "--prefix", staged, "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=10000"}
	if registry != "" {
		args = append(args, "--registry", registry)
	}
	bundle := filepath.Join(staged, "ca.pem") // where npm sees it
	if ca := os.Getenv("NODE_EXTRA_CA_CERTS"); ca != "" {
		data, err := os.ReadFile(ca)
		if err == nil {
			err = os.WriteFile(bundle, data, 0o644)
		}
		if err != nil {
			return err
		}
		s.env = append(s.env, "NODE_EXTRA_CA_CERTS="+bundle)
	}
	l := listen(c)
	defer l.stop()
	err = orGivenUp(l.ctx, run(l, s, append(args, a.Package+"@latest")))
	_ = os.Remove(bundle)
	if l.ctx.Err() != nil || errors.Is(err, status(130)) {
		return err
	}
	if err != nil { // of an exit code, npm has said why
		return ui.Error(fmt.Sprintf("npm could not install %s: %v", a.Name, err), "see above; or install "+a.Name+" yourself, it is then used as it is")
	}
	version, err := agent.Adopt(host.Tools, a, staged)
	if err == nil {
		fmt.Fprintf(os.Stderr, "coffer: installed %s %s\n", a.Name, version)
	}
	return err
}
