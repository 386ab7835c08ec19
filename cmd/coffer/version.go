package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the linker for released binaries.
var release = ""

// version is the release, or the commit that was built.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "commit " + s.Value[:min(12, len(s.Value))]
		}
	}
	return "development"
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  coffer version",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Printf("coffer %s %s/%s %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
			return nil
		},
	}
}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for your shell",
		Long: `Print a script that teaches your shell to complete coffer's commands, flags and
sandboxes. The one for bash needs the package bash-completion.`,
		Example:   "  source <(coffer completion bash)\n  coffer completion fish > ~/.config/fish/completions/coffer.fish",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("expected one shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(os.Stdout, true)
			case "zsh":
				return c.Root().GenZshCompletion(os.Stdout)
			case "fish":
				return c.Root().GenFishCompletion(os.Stdout, true)
			}
			return usagef("there is no completion for %q: want bash, zsh or fish", args[0])
		},
	}
}
