package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

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
		Args: noArgs,
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
		Args:    exactly(1, "the name of a preset"),
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
