package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "See and check what the config files say",
		Long: `See and check what the config files say: coffer.toml and coffer.local.toml at the root
of the repository, config.toml of yours in ~/.config/coffer, and the administrator's
/etc/coffer/policy.toml, which only takes away. All keys are described by 'coffer
config schema'.`,
		Example: `  coffer config show --origin
  coffer config check`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(configShow(), configCheck(), configSchema())
	return c
}

func configShow() *cobra.Command {
	var origin bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show what holds for a new sandbox over the current directory",
		Long: `Show what holds for a new sandbox over the current directory, as TOML. With --origin
each value has a line, which says the file and the line that set it. Flags of 'coffer
run' count more than any of it, and the administrator's floor more than they.`,
		Example: "  coffer config show --origin",
		RunE: func(*cobra.Command, []string) error {
			l, err := loadHere()
			if err != nil {
				return err
			}
			fmt.Fprint(stdout, l.Show(origin), l.Floor.Show())
			return nil
		},
	}
	c.Flags().BoolVar(&origin, "origin", false, "say where each value was set")
	return c
}

func configCheck() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the config files and list what needs your yes",
		Long: `Check the config files: all mistakes are listed. What the repository's files ask for
that you have not agreed to is listed too, but is no mistake; nor is what this machine
lacks, such as a directory that is to be mounted or a variable. What the administrator
does not allow is.`,
		Example: "  coffer config check",
		RunE: func(*cobra.Command, []string) error {
			l, err := loadHere()
			if err != nil {
				return err
			}
			widens, err := l.Widens(sandbox.PassesVariable)
			if err != nil {
				return err
			}
			places, err := placesHere()
			if err != nil {
				return err
			}
			if err := checkStart(l, places); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "coffer: no mistakes in %s\n", count(len(l.Files), "file"))
			if len(widens) == 0 {
				return nil
			}
			store, err := places.TrustStore()
			if err == nil {
				var has bool
				if has, err = store.Has(l, widens); has {
					fmt.Fprintln(os.Stderr, "you have agreed to:\n"+bullets(widens))
					return nil
				}
			}
			fmt.Fprintln(os.Stderr, "this needs your yes, see 'coffer trust':\n"+bullets(widens))
			return err
		},
	}
	return c
}

// checkStart warns about what this machine lacks for a start here, and returns what the administrator forbids.
func checkStart(l *config.Loaded, places config.Places) error {
	rec := sandbox.Record{Nesting: l.Config.Nesting, Workspace: sandbox.Workspace{Path: places.Dir, Mode: sandbox.WorkspaceDirect}}
	if l.Config.Workspace.Mode == sandbox.WorkspaceNone {
		rec.Workspace = sandbox.Workspace{Mode: sandbox.WorkspaceNone}
	}
	mounts, err1 := l.Mounts(warn, false)
	given, err2 := l.HomeFiles()
	_, _, err3 := l.Variables()
	_, err4 := l.Daemons()
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			warn("a start here would fail: " + err.Error())
		}
	}
	rec.Mounts = slices.Concat(mounts, given)
	rec.Caches = l.Caches(&rec)
	return enforceHere(l, &rec)
}

func configSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of config files, for editors",
		Example: "  coffer config schema > coffer.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := stdout.Write(config.JSONSchema)
			return err
		},
	}
}

func presetsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "presets",
		Short: "List the presets that a config file can start from",
		Long: `List the presets that a config file can start from, with presets = ["NAME"]. A file
NAME.toml in ~/.config/coffer/presets is one of your own, and counts more than a
built-in one of that name.`,
		Example: `  coffer presets
  coffer presets show claude-code`,
		RunE: func(*cobra.Command, []string) error {
			places, err := placesHere()
			if err != nil {
				return err
			}
			list, err := places.FindPresets()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(list)
			}
			w := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', 0)
			for _, p := range list {
				whose := ""
				if p.User {
					whose = " (your own)"
				}
				fmt.Fprintf(w, "%s\t%s%s\n", p.Name, terminal.Escape(p.About), whose)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show what is in a preset",
		Example: "  coffer presets show node",
		RunE: func(_ *cobra.Command, args []string) error {
			places, err := placesHere()
			if err != nil {
				return err
			}
			p, err := places.Preset(args[0])
			if err != nil {
				return ui.Hint(usagef("preset %q: %w", args[0], err), "see 'coffer presets'")
			}
			fmt.Fprint(stdout, p.Text)
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			if places, err := placesHere(); err == nil {
				list, _ := places.FindPresets()
				for _, p := range list {
					names = append(names, p.Name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	})
	return c
}
