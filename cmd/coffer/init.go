package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func initCommand() *cobra.Command {
	var force, local, print, dev bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a coffer.toml for this repository",
		Long: `Look at the repository, its languages, lock files and agents, and write a commented
coffer.toml at its root to start from, and a .sandboxignore with what sandboxes cannot
read, if there is none. With --local, write coffer.local.toml, which is
for you alone, and have git ignore it.`,
		Example: `  coffer init
  coffer init --print`,
		RunE: func(c *cobra.Command, _ []string) error {
			if local && dev {
				return usagef("--devcontainer is for coffer.toml, not for --local")
			}
			if os.Getenv("COFFER_SANDBOX") != "" {
				return ui.Error("config files are written outside of sandboxes", "run 'coffer init' there")
			}
			places, err := placesHere()
			if err != nil {
				return err
			}
			root := places.Root()
			if why := unsuitable(root, places.Home); why != "" {
				return ui.Error(fmt.Sprintf("%s cannot be a workspace: %s", root, why), "change to a project's directory")
			}
			name, text, err := starterFor(root, local, dev)
			if err != nil {
				return err
			}
			if print {
				fmt.Fprint(stdout, text)
				return nil
			}
			if err := writeStarter(root, name, text, force); err != nil || local {
				return err
			}
			warnHistory(c.Context())
			return nil
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the file that is there")
	c.Flags().BoolVar(&local, "local", false, "write coffer.local.toml, which is not checked in")
	c.Flags().BoolVar(&dev, "devcontainer", false, "take over the image, ports, variables, mounts and postCreateCommand of devcontainer.json")
	c.Flags().BoolVar(&print, "print", false, "print it and write nothing")
	return c
}

func starterFor(root string, local, dev bool) (name, text string, err error) {
	if local {
		return config.LocalName, "# Your own settings for this repository, on top of coffer.toml. Not checked in.\n", nil
	}
	found, remarks, err := config.Look(root)
	if err == nil && dev {
		if text, err = config.DevContainer(root); err == nil && text == "" {
			err = ui.Error("there is no devcontainer.json", "leave out --devcontainer")
		}
	}
	return config.FileName, config.Starter(found, config.CachesFor(root), remarks, text), err
}

func writeStarter(root, name, text string, force bool) error {
	err := config.Create(root, name, text, force)
	if errors.Is(err, fs.ErrExist) {
		return ui.Error(fmt.Sprintf("there is a %s already", name), "see it with 'coffer config show', or replace it with --force")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	fmt.Fprintf(os.Stderr, "coffer: wrote %s\n", terminal.Escape(filepath.Join(root, name)))
	if name != config.LocalName {
		return writeIgnore(root)
	}
	added, err := config.Exclude(root)
	if added {
		fmt.Fprintf(os.Stderr, "coffer: git ignores it, by .git/info/exclude\n")
	}
	return err
}
