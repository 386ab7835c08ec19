package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

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
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(names, args[0]) {
				return usagef("want one of keyring, file and passphrase")
			}
			return nil
		},
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := secret.Mine()
			if err != nil {
				return err
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

// printVault is doctor's word on the vault, if there is one.
func printVault() {
	v, err := secret.Mine()
	if err != nil {
		return
	}
	if _, err := os.Lstat(v.Dir()); err != nil {
		return
	}
	s, err := v.Status()
	if err == nil {
		fmt.Fprintln(stdout, "vault: "+terminal.Escape(s))
		return
	}
	fmt.Fprintln(stdout, "vault: "+terminal.Escape(err.Error()))
	if h := ui.HintOf(err); h != "" {
		fmt.Fprintln(stdout, "  fix: "+terminal.Escape(h))
	}
}
