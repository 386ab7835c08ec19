package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func trustCommand() *cobra.Command {
	var list, revoke, all, yes, asJSON bool
	c := &cobra.Command{
		Use:   "trust",
		Short: "Agree to what this repository's config files ask for",
		Long: `Agree to what coffer.toml and coffer.local.toml of this repository give to programs in
a sandbox that they would not have otherwise: more of the network, directories of this
machine, variables of yours, a weaker wall. Lines of .sandboxignore files that show what
is hidden count too, in any directory. You are shown the list and asked. The yes is for
the files as they are, in this directory: when one of them changes, you are shown how, and
asked again. Files that only make a sandbox tighter need no yes.`,
		Example: `  coffer trust
  coffer trust --list
  coffer trust --revoke`,
		RunE: func(c *cobra.Command, _ []string) error {
			if list && revoke || all && !revoke || yes && (list || revoke) {
				return usagef("choose one of --list, --revoke, --revoke --all and --yes")
			}
			if asJSON && !list {
				return ui.Hint(usagef("--json is for --list"), "see '%s --help'", c.CommandPath())
			}
			places, err := placesHere()
			if err != nil {
				return err
			}
			switch {
			case list:
				return listTrust(places, asJSON)
			case revoke:
				return revokeTrust(places, all)
			}
			ctx, stop := interruptible(c)
			defer stop()
			return giveTrust(ctx, places, yes)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list what you have agreed to")
	c.Flags().BoolVar(&revoke, "revoke", false, "take back what you agreed to for this repository")
	c.Flags().BoolVar(&all, "all", false, "with --revoke: for every repository")
	c.Flags().BoolVar(&asJSON, "json", false, "with --list: print JSON")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask: you have read it")
	return c
}

func giveTrust(ctx context.Context, places config.Places, yes bool) error {
	if err := refuseInside(); err != nil {
		return err
	}
	l, err := load(places)
	if err != nil {
		return err
	}
	widens, err := l.Widens(sandbox.PassesVariable)
	if err != nil {
		return err
	}
	if len(widens) == 0 {
		fmt.Fprintln(os.Stderr, "coffer: the config files of this repository ask for nothing that needs your yes")
		return nil
	}
	store, err := places.TrustStore()
	if err != nil {
		return err
	}
	has, err := store.Has(l, widens)
	switch {
	case err != nil:
		return err
	case has:
		fmt.Fprintln(os.Stderr, "coffer: you have agreed to this already:\n"+bullets(widens))
		return nil
	case yes:
		err = store.Add(l, widens)
	default:
		err = ask(ctx, store, l, widens)
	}
	if err == nil {
		fmt.Fprintln(os.Stderr, "coffer: trusted:\n"+bullets(widens))
	}
	return err
}

func refuseInside() error {
	if os.Getenv("COFFER_SANDBOX") == "" {
		return nil
	}
	return ui.Error("a program in a sandbox cannot agree to anything on your behalf", "run 'coffer trust' outside")
}

// agree makes sure that the user wants what the repository's files ask for: before, for this once, or now.
func (s *settings) agree(ctx context.Context, places config.Places, l *config.Loaded) error {
	if s.workspace == sandbox.WorkspaceNone {
		// The directory is not shown anyway, so a mount of it needs a yes.
		l.Config.Workspace.Mode = s.workspace
	}
	if s.net == "none" {
		l.Offline()
	}
	widens, err := l.Widens(sandbox.PassesVariable)
	if err != nil || len(widens) == 0 {
		return err
	}
	if s.trust && os.Getenv("COFFER_SANDBOX") == "" {
		fmt.Fprintln(os.Stderr, "coffer: for this run, as you say:\n"+bullets(widens))
		return nil
	}
	store, err := places.TrustStore()
	if err == nil {
		err = refuseInside()
	}
	if err != nil {
		return fmt.Errorf("%w; %s wants\n%s", err, wishes(l), bullets(widens))
	}
	if has, err := store.Has(l, widens); err != nil || has {
		return err
	}
	return ask(ctx, store, l, widens)
}

func wishes(l *config.Loaded) string {
	return "the config of " + terminal.Plain(l.Repository)
}

func bullets(list []string) string {
	var lines []string
	for _, w := range list {
		lines = append(lines, "  - "+terminal.Plain(w))
	}
	return strings.Join(lines, "\n")
}

// ask asks on the terminal and remembers a yes.
func ask(ctx context.Context, store config.Trust, l *config.Loaded, widens []string) error {
	list := bullets(widens) + changed(store, l)
	yes, err := ui.Agree(ctx, fmt.Sprintf("%s asks for more than a sandbox has by itself:\n%s\nAgree, until the files change?", wishes(l), list))
	switch {
	case errors.Is(err, ui.ErrNoTerminal):
		return ui.Error(fmt.Sprintf("%s asks for more than you have agreed to, and there is no terminal to ask you on:\n%s", wishes(l), list),
			"read it, then run 'coffer trust' there (with --yes if there is no terminal), or agree for one run with --trust")
	case err != nil:
		return err
	case yes:
		return store.Add(l, widens)
	}
	return ui.Error("you did not agree to what coffer.toml asks for", "change coffer.toml, or agree for one run with --trust")
}

// maxDiff bounds the lines of a diff that are shown.
const maxDiff = 60

// changed shows how the files differ from those that the user agreed to last.
func changed(store config.Trust, l *config.Loaded) string {
	text := store.Changes(l)
	if text == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	more := len(lines) - maxDiff
	if more > 0 {
		lines = append(lines[:maxDiff], fmt.Sprintf("… and %d more lines", more))
	}
	for i, line := range lines {
		lines[i] = "\n    " + terminal.Content(line[:min(len(line), 200)])
	}
	return "\n  Since you agreed:" + strings.Join(lines, "")
}

func listTrust(places config.Places, asJSON bool) error {
	store, err := places.TrustStore()
	if err != nil {
		return err
	}
	list, err := store.List()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(append([]config.Grant{}, list...))
	}
	if len(list) == 0 {
		fmt.Fprintln(os.Stderr, "you have not agreed to anything")
	}
	for _, g := range list {
		fmt.Fprintf(stdout, "%s, %s\n%s\n", terminal.Escape(g.Repository), g.Given.Local().Format("2006-01-02 15:04"), bullets(g.Widens))
	}
	return nil
}

func revokeTrust(places config.Places, all bool) error {
	store, err := places.TrustStore()
	if err != nil {
		return err
	}
	repository := places.Root()
	if all {
		repository = ""
	}
	n, err := store.Revoke(repository)
	if err != nil {
		return err
	}
	if n == 0 {
		fmt.Fprintln(os.Stderr, "coffer: there is nothing to take back; see 'coffer trust --list'")
		return nil
	}
	fmt.Fprintf(os.Stderr, "coffer: took back %s; sandboxes that exist keep what they have\n", count(n, "answer"))
	return nil
}
