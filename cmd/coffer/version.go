package main

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

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
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(stdout, "coffer %s %s/%s %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
			return nil
		},
	}
}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for your shell",
		Long: `Print a script that teaches your shell to complete coffer's commands, flags and
sandboxes.`,
		Example: `  source <(coffer completion bash)        in ~/.bashrc
  source <(coffer completion zsh)         in ~/.zshrc
  coffer completion fish > ~/.config/fish/completions/coffer.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				fmt.Fprint(stdout, bashAlone)
				return c.Root().GenBashCompletionV2(stdout, true)
			case "zsh":
				return zshCompletion(c.Root())
			case "fish":
				return c.Root().GenFishCompletion(stdout, true)
			}
			return usagef("there is no completion for %q: want bash, zsh or fish", args[0])
		},
	}
}

func zshCompletion(root *cobra.Command) error {
	var script bytes.Buffer
	err := root.GenZshCompletion(&script)
	const register = "\ncompdef "
	fmt.Fprint(stdout, strings.Replace(script.String(), register, "\n(( $+functions[compdef] )) || { autoload -Uz compinit; compinit -i; }"+register, 1))
	return err
}

// bashAlone is what the script for bash uses of the package bash-completion, for shells without it.
const bashAlone = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref()
    {
        local line=${COMP_LINE:0:COMP_POINT}
        read -ra words <<<"$line"
        [[ $line == *[[:space:]] ]] && words+=("")
        cword=$((${#words[@]} - 1))
        cur=${words[cword]} prev=${words[cword > 0 ? cword - 1 : 0]}
    }
fi
if ! declare -F _filedir >/dev/null; then
    _filedir()
    {
        local how=-f
        [[ ${1-} == -d ]] && how=-d
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$how" -- "$cur")
    }
fi

`
