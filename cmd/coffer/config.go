package main

import (
	"fmt"
	"os"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/spf13/cobra"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "See and check what the config files say",
		Long: `See and check what the config files say: coffer.toml and coffer.local.toml at the root
of the repository, config.toml of yours in ~/.config/coffer, and the administrator's
/etc/coffer/policy.toml, which only takes away. All keys are described by 'coffer
config schema' and in docs/config.md.`,
		Example: `  coffer config show --origin
  coffer config check`,
		Args: noArgs,
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
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := loadHere()
			if err != nil {
				return err
			}
			fmt.Print(l.Show(origin), l.Floor.Show())
			return nil
		},
	}
	c.Flags().BoolVar(&origin, "origin", false, "say where each value was set")
	return c
}

func loadHere() (*config.Loaded, error) {
	places, err := placesHere()
	if err != nil {
		return nil, err
	}
	l, err := places.Load()
	if err == nil && l == nil {
		l, err = places.Defaults()
	}
	return l, err
}

func configCheck() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the config files and list what needs your yes",
		Long: `Check the config files: all mistakes are listed. What the repository's files ask for
that you have not agreed to is listed too, but is no mistake.`,
		Example: "  coffer config check",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := loadHere()
			if err != nil {
				return err
			}
			widens, err := l.Widens(passesAnyway)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "coffer: no mistakes in %s\n", count(len(l.Files), "file"))
			if len(widens) == 0 {
				return nil
			}
			places, err := placesHere()
			if err != nil {
				return err
			}
			store, err := places.TrustStore()
			if err == nil {
				var has bool
				if has, err = store.Has(l.Repository, widens); has {
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

func configSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of config files, for editors",
		Example: "  coffer config schema > coffer.schema.json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := os.Stdout.Write(config.JSONSchema)
			return err
		},
	}
}
