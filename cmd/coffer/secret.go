package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Keep tokens and passwords, and give them to sandboxes by name",
		Long: `Keep tokens and passwords in a vault, and give them to sandboxes by name. In a config
file, env.set.TOKEN = "${secret:GITHUB_TOKEN}" has every program of a sandbox find it in
its variable TOKEN, and on a command line -e GITHUB_TOKEN does. Files of a repository
that ask for a secret need your yes: see 'coffer trust'.`,
		Example: `  coffer secret set GITHUB_TOKEN
  coffer secret ls
  coffer run -e GITHUB_TOKEN -- ./release.sh`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if os.Getenv("COFFER_SANDBOX") != "" {
				return ui.Error("your vault is not opened from within a sandbox", "use 'coffer secret' outside; what was given to this sandbox is in its variables")
			}
			return nil
		},
	}
	c.AddCommand(secretSet(), secretList(), secretGet(), secretRemove(), secretKey())
	return c
}

func secretSet() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Put a secret into the vault",
		Long: `Put a secret into the vault, in place of what it was before. You are asked for its
value, which is not shown; without a terminal it is read from standard input, where a
newline at its end does not count. It is never an argument: other users could see it.`,
		Example: `  coffer secret set GITHUB_TOKEN
  gh auth token | coffer secret set GITHUB_TOKEN
  coffer secret set DEPLOY_KEY <id_ed25519
  coffer secret set NPM_TOKEN --from-env NPM_TOKEN`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.Contains(args[0], "=") {
				return ui.Hint(usagef("want one name; a value cannot be an argument, where other users could see it"), "you are asked for it; or: … | coffer secret set NAME")
			}
			return nil
		},
		ValidArgsFunction: completeSecret,
		RunE: func(c *cobra.Command, args []string) error {
			if err := secret.CheckName(args[0]); err != nil {
				return usage{err}
			}
			value, err := secretValue(c, args[0], from)
			if err != nil {
				return err
			}
			v, err := secret.Mine()
			if err != nil {
				return err
			}
			made, err := v.Set(args[0], value)
			if err != nil {
				return err
			}
			if made != nil {
				fmt.Fprintf(os.Stderr, "coffer: %s is new; %s", terminal.Escape(v.Dir()), made.Keeping.Means())
				if made.Why != nil {
					fmt.Fprintf(os.Stderr, " (%s)", terminal.Escape(made.Why.Error()))
				}
				fmt.Fprintln(os.Stderr, "; see 'coffer secret key'")
			}
			fmt.Fprintf(os.Stderr, "coffer: the secret %s is in your vault\n", args[0])
			return nil
		},
	}
	c.Flags().StringVar(&from, "from-env", "", "take the value of your environment variable `VAR`")
	return c
}

func secretGet() *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "get NAME",
		Short: "Print a secret, to a pipe or a file",
		Long: `Print a secret, without a newline behind it, for another program or a file. On a
terminal it is printed only with --show.`,
		Example: `  coffer secret get DEPLOY_KEY | ssh-add -
  coffer secret get GITHUB_TOKEN --show`,
		ValidArgsFunction: completeSecret,
		RunE: func(_ *cobra.Command, args []string) error {
			screen := terminal.IsTerminal(1)
			if screen && !show {
				return ui.Error("the secret would be seen on the screen", "say --show if it may, or pipe it to a program")
			}
			v, err := secret.Mine()
			if err != nil {
				return err
			}
			value, err := v.Get(args[0])
			if err != nil {
				return err
			}
			if screen {
				value = []byte(terminal.Content(string(value)) + "\n")
			}
			_, err = stdout.Write(value)
			return err
		},
	}
	c.Flags().BoolVar(&show, "show", false, "print it on a terminal, too")
	return c
}

func secretRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Take a secret out of the vault",
		Long: `Take a secret out of the vault. Programs that run keep what they were given; sandboxes
that need it cannot start others until it is there again.`,
		Example:           "  coffer secret rm GITHUB_TOKEN",
		ValidArgsFunction: completeSecret,
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := secret.Mine()
			if err != nil {
				return err
			}
			return v.Remove(args[0])
		},
	}
}

func completeSecret(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if v, err := secret.Mine(); err == nil && len(args) == 0 {
		label, _ := v.Label()
		for _, e := range label {
			names = append(names, e.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func secretKey() *cobra.Command {
	var names []string
	for _, k := range secret.Keepings {
		names = append(names, string(k))
	}
	return &cobra.Command{
		Use:   "key [keyring|file|passphrase]",
		Short: "Say how the vault's key is kept, or keep it in another way",
		Long: `Say how the vault's key is kept, or keep it in another way:

  keyring     in the keyring of your desktop, which your login opens. This is
              the default if there is a keyring that answers.
  file        in a file beside the vault, which only you can read. Whoever gets
              a copy of your files has your secrets.
  passphrase  in such a file, closed by what is in ` + secret.Variable + `.
              The default if the variable is set when the vault is made.`,
		Example: `  coffer secret key
  coffer secret key keyring`,
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := secret.Mine()
			if err != nil {
				return err
			}
			if len(args) == 1 && !slices.Contains(names, args[0]) {
				return usagef("want one of keyring, file and passphrase")
			}
			if len(args) == 1 {
				if err := v.Move(secret.Keeping(args[0])); err != nil {
					return err
				}
			}
			s, err := v.Status()
			if err != nil {
				return err
			}
			fmt.Fprintln(stdout, terminal.Escape(s))
			return nil
		},
	}
}

func printVault() {
	v, err := secret.Mine()
	if err != nil {
		return
	}
	if _, err := os.Lstat(v.Dir()); err != nil {
		return
	}
	s, err := v.Status()
	if err != nil {
		s = err.Error()
	}
	fmt.Fprintln(stdout, "vault: "+terminal.Escape(s))
	if h := ui.HintOf(err); h != "" {
		fmt.Fprintln(stdout, "  fix: "+terminal.Escape(h))
	}
}

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

// listSecrets names the users of each, also by a plain variable of its name.
func listSecrets(label secret.Label) []listedSecret {
	list := []listedSecret{}
	for _, e := range label {
		list = append(list, listedSecret{Name: e.Name, Set: e.Set, Sandboxes: []string{}, Config: []string{}})
	}
	note := func(text string, users func(*listedSecret) *[]string, user string) {
		refs, _ := secret.Mentions(text)
		for _, r := range refs {
			if i, ok := label.Find(r.Name); ok && (r.Secret || !sandbox.PassesVariable(r.Name)) {
				if to := users(&list[i]); !slices.Contains(*to, user) {
					*to = append(*to, user)
				}
			}
		}
	}
	for _, sb := range allSandboxes() {
		templates := slices.Clone(sb.EnvFrom)
		for _, d := range sb.Daemons {
			templates = append(templates, d.Env...)
		}
		for _, e := range templates {
			_, text, _ := strings.Cut(e, "=")
			note(text, func(s *listedSecret) *[]string { return &s.Sandboxes }, sb.Name)
		}
	}
	config := func(s *listedSecret) *[]string { return &s.Config }
	if l, err := loadHere(); err == nil {
		for name, text := range l.Config.Env.Set {
			note(text, config, "env.set."+name)
		}
		for daemon, d := range l.Config.Daemons {
			for name, text := range d.Env {
				note(text, config, "daemons."+daemon+".env."+name)
			}
		}
	}
	for i := range list {
		slices.Sort(list[i].Config)
	}
	return list
}

func secretValue(c *cobra.Command, name, variable string) (value []byte, err error) {
	switch {
	case variable != "":
		text, ok := os.LookupEnv(variable)
		if !ok {
			return nil, ui.Hint(usagef("the environment variable %s is not set", variable), "export it, or leave out --from-env")
		}
		value = []byte(text)
	case terminal.IsTerminal(0):
		ctx, stop := interruptible(c)
		defer stop()
		if value, err = ui.AskHidden(ctx, fmt.Sprintf("Value of %s (it is not shown): ", name)); err != nil {
			return nil, err
		}
	default:
		value, err = io.ReadAll(io.LimitReader(os.Stdin, secret.MaxValue+3))
		if err != nil {
			return nil, fmt.Errorf("read the value from standard input: %w", err)
		}
		value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
	}
	if err := secret.CheckValue(value); err != nil {
		return nil, ui.Hint(fmt.Errorf("%s is not set: %w", name, err), "type it, or pipe it to 'coffer secret set %s'", name)
	}
	return value, nil
}
