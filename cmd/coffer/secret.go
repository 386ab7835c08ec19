package main

import (
	"fmt"
	"os"
	"strings"

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
		Args: noArgs,
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
			if len(args) > 1 || len(args) == 1 && strings.Contains(args[0], "=") {
				return ui.Hint(usagef("a value cannot be an argument, where other users could see it"), "you are asked for it; or: … | coffer secret set NAME")
			}
			return oneSecret(args)
		},
		ValidArgsFunction: completeSecret,
		RunE: func(c *cobra.Command, args []string) error {
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
				tellMade(v, made)
			}
			fmt.Fprintf(os.Stderr, "coffer: the secret %s is in your vault\n", args[0])
			return nil
		},
	}
	c.Flags().StringVar(&from, "from-env", "", "take the value of your environment variable `VAR`")
	return c
}

// tellMade says once what protects the vault.
func tellMade(v *secret.Vault, made *secret.Made) {
	why := ""
	if made.Why != nil {
		why = fmt.Sprintf(" (%s)", terminal.Escape(made.Why.Error()))
	}
	fmt.Fprintf(os.Stderr, "coffer: %s is new; %s%s; see 'coffer secret key'\n", terminal.Escape(v.Dir()), made.Keeping.Means(), why)
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
		Args:              func(_ *cobra.Command, args []string) error { return oneSecret(args) },
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
		Args:              func(_ *cobra.Command, args []string) error { return oneSecret(args) },
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

// oneSecret wants one name.
func oneSecret(args []string) error {
	if len(args) != 1 {
		return ui.Hint(usagef("want the name of one secret"), "see 'coffer secret ls'")
	}
	if err := secret.CheckName(args[0]); err != nil {
		return usage{err}
	}
	return nil
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
