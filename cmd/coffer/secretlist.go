package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// A listedSecret is what is said about one: never its value.
type listedSecret struct {
	Name      string    `json:"name"`
	Set       time.Time `json:"set"`
	Sandboxes []string  `json:"sandboxes"` // that have a template with it
	Config    []string  `json:"config"`    // keys of the config files here
}

func secretList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the secrets: names, never values",
		Long: `List the secrets: when each was set, which sandboxes are given it, and by which keys of
the config files that hold in this directory. The vault is not opened for that.`,
		Example: "  coffer secret ls",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v, err := secret.Mine()
			if err != nil {
				return err
			}
			label, err := v.Label()
			if err != nil {
				return err
			}
			list := listSecrets(label)
			if asJSON {
				return printJSON(list)
			}
			if len(list) == 0 {
				fmt.Fprintln(os.Stderr, "there are no secrets; put one there with 'coffer secret set NAME'")
				return nil
			}
			t := ui.Table{{"NAME", "SET", "SANDBOXES", "CONFIG HERE"}}
			for _, s := range list {
				t.Add(s.Name, s.Set.Local().Format("2006-01-02 15:04"), orDash(s.Sandboxes), orDash(s.Config))
			}
			t.Print(stdout)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func orDash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

// listSecrets says of each who uses it. What cannot be read has no say in it.
func listSecrets(label secret.Label) []listedSecret {
	list := []listedSecret{}
	for _, e := range label {
		list = append(list, listedSecret{Name: e.Name, Set: e.Set, Sandboxes: []string{}, Config: []string{}})
	}
	// note adds a user of all secrets that a template names. Plain variables count too:
	// they stand for the secret while they are not set.
	note := func(text string, add func(*listedSecret)) {
		refs, _ := secret.Mentions(text)
		for _, r := range refs {
			if i, ok := label.Find(r.Name); ok && (r.Secret || !passesAnyway(r.Name)) {
				add(&list[i])
			}
		}
	}
	for _, sb := range allSandboxes() {
		for _, text := range templatesOf(sb) {
			note(text, func(s *listedSecret) { s.Sandboxes = once(s.Sandboxes, sb.Name) })
		}
	}
	if l, err := loadHere(); err == nil {
		for key, text := range configTemplates(l.Config) {
			note(text, func(s *listedSecret) { s.Config = once(s.Config, key) })
		}
	}
	for i := range list {
		slices.Sort(list[i].Config)
	}
	return list
}

func once(list []string, item string) []string {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

// templatesOf are those that a sandbox fills in.
func templatesOf(sb *sandbox.Sandbox) (texts []string) {
	for _, e := range sb.EnvFrom {
		_, text, _ := strings.Cut(e, "=")
		texts = append(texts, text)
	}
	for _, d := range sb.Daemons {
		for _, e := range d.Env {
			_, text, _ := strings.Cut(e, "=")
			texts = append(texts, text)
		}
	}
	return texts
}

// configTemplates are those of the config files, by their keys.
func configTemplates(c *config.Config) map[string]string {
	all := map[string]string{}
	for name, text := range c.Env.Set {
		all["env.set."+name] = text
	}
	for daemon, d := range c.Daemons {
		for name, text := range d.Env {
			all["daemons."+daemon+".env."+name] = text
		}
	}
	return all
}
