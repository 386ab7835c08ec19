package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/image"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func imagesCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "images",
		Short: "List the images that sandboxes can have their tools from",
		Long: `List the OCI images on this machine: their names, and which sandboxes have their tools
from them. A sandbox gets one with --image, or image = "NAME" in a config file; it is
pulled when it is not here.`,
		Example: "  coffer images\n  coffer run --image debian:12 -- cat /etc/os-release",
		RunE: func(*cobra.Command, []string) error {
			users, err := imageUsers()
			if err != nil {
				return err
			}
			found, errs := images().List()
			all := []listedImage{}
			for _, i := range found {
				all = append(all, listedImage{append([]string{}, i.Refs...), i.Digest.String(), i.Size, i.Pulled, append([]string{}, users[i.Digest.String()]...)})
			}
			if asJSON {
				err = printJSON(all)
			} else {
				printImages(all)
			}
			for _, e := range errs {
				report(e)
			}
			if err == nil && len(errs) > 0 {
				err = status(125)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(imagesPullCommand(), imagesRemoveCommand(), imagesPruneCommand())
	return c
}

type listedImage struct {
	Refs   []string  `json:"refs"`
	Digest string    `json:"digest"`
	Size   int64     `json:"size"`
	Pulled time.Time `json:"pulled"`
	UsedBy []string  `json:"used_by"` // names of sandboxes
}

func imageUsers() (map[string][]string, error) {
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	all, errs := store.List()
	if err := errors.Join(errs...); err != nil {
		return nil, err // one that cannot be read may use any
	}
	users := map[string][]string{}
	for _, sb := range all {
		if !sb.Image.None() {
			users[sb.Image.Digest] = append(users[sb.Image.Digest], sb.Name)
		}
	}
	return users, nil
}

func printImages(all []listedImage) {
	if len(all) == 0 {
		fmt.Fprintln(os.Stderr, "there are no images")
		return
	}
	t := ui.Table{{"NAME", "DIGEST", "SIZE", "PULLED", "USED BY"}}
	for _, i := range all {
		t.Add(orDash(i.Refs), shortDigest(i.Digest), size(i.Size), age(i.Pulled)+" ago", orDash(i.UsedBy))
	}
	t.Print(stdout)
}

func shortDigest(d string) string { return strings.TrimPrefix(d, "sha256:")[:12] }

func imagesPullCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pull IMAGE",
		Short: "Get an image, or what its name stands for now",
		Long: `Get an image from a registry, a directory or an archive. A sandbox that exists stays
with the image that it was made with. Credentials are those of 'docker login'.`,
		Example: "  coffer images pull debian:12\n  coffer images pull oci:./image",
		RunE: func(c *cobra.Command, args []string) error {
			ref, err := parseImage(args[0])
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c)
			defer stop()
			i, err := pullImage(ctx, ref, images().Pull)
			if err != nil {
				return orGivenUp(ctx, err)
			}
			fmt.Fprintln(stdout, i.Digest)
			return nil
		},
	}
}

func imagesRemoveCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:               "rm IMAGE…",
		Short:             "Remove images that no sandbox uses",
		Long:              `Remove images, by a name or by the beginning of a digest, unless a sandbox uses them.`,
		Example:           "  coffer images rm debian:12",
		ValidArgsFunction: completeImage,
		RunE: func(c *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				errs = append(errs, removeImage(c.Context(), name, force))
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "remove it although sandboxes use it, which cannot start then")
	return c
}

func removeImage(ctx context.Context, name string, force bool) error {
	digest, err := findImage(name)
	if err != nil {
		return err
	}
	if !force {
		users, err := imageUsers()
		if err != nil {
			return err
		}
		if list := users[digest]; len(list) > 0 {
			return ui.Error(fmt.Sprintf("the image %s is used by %s", name, terminal.Escape(strings.Join(list, ", "))), "remove these with 'coffer rm', or see 'coffer images rm --help'")
		}
	}
	return images().Remove(ctx, digest, sayWaiting)
}

func sayWaiting() { fmt.Fprintln(os.Stderr, "coffer: waiting for a pull to end …") }

func findImage(name string) (digest string, err error) {
	if image.IsDigest(name) {
		return name, nil // one that cannot be read is not listed
	}
	ref, wrong := parseImage(name)
	all, _ := images().List()
	var found []string
	for _, i := range all {
		hex := strings.TrimPrefix(i.Digest.String(), "sha256:")
		if wrong == nil && slices.Contains(i.Refs, ref.String()) {
			return i.Digest.String(), nil
		}
		if part := strings.TrimPrefix(name, "sha256:"); len(part) >= 4 && strings.HasPrefix(hex, part) {
			found = append(found, i.Digest.String())
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return "", ui.Hint(fmt.Errorf("the image %s %w", name, image.ErrNotHere), "see 'coffer images'")
}

func imagesPruneCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "prune",
		Short:   "Remove all images that no sandbox uses, and what is left of pulls",
		Example: "  coffer images prune",
		RunE: func(c *cobra.Command, _ []string) error {
			// Asked when nobody else changes anything.
			users := sync.OnceValues(imageUsers)
			gone, err := images().Prune(c.Context(), sayWaiting, func(i *image.Image) bool {
				list, err := users()
				return err != nil || len(list[i.Digest.String()]) > 0
			})
			if _, unread := users(); err == nil {
				err = unread
			}
			for _, i := range gone {
				fmt.Fprintf(stdout, "removed %s (%s)\n", terminal.Escape(strings.Join(append(i.Refs, shortDigest(i.Digest.String())), " ")), size(i.Size))
			}
			return err
		},
	}
}

func completeImage(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	all, _ := images().List()
	for _, i := range all {
		names = append(names, i.Refs...)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func images() *image.Store { return supervisor.Images(dataDir()) }

func parseImage(text string) (image.Reference, error) {
	r, err := image.Parse(text)
	if err != nil {
		return r, usage{err}
	}
	here := ""
	if r.Local() {
		if here, err = currentDir(); err != nil {
			return r, err
		}
	}
	return r.In(here, sandbox.Me().Home), nil
}

func (s *settings) takeImage(ctx context.Context, rec *sandbox.Record) error {
	if s.image == "" || s.image == config.NoImage {
		return nil
	}
	// What a flag names is relative to here, what the config names to the repository.
	ref, err := parseImage(s.image)
	if s.fromConfig {
		var named *image.Reference
		if named, err = s.conf.Image(); err == nil {
			ref = *named
		}
	}
	if err != nil {
		return err
	}
	found, err := pullImage(ctx, ref, images().Need)
	if err != nil {
		return orGivenUp(ctx, err)
	}
	rec.Image = sandbox.Image{Ref: ref.String(), Digest: found.Digest.String(), Env: found.Env}
	for _, shell := range []string{sandbox.Me().Shell, "/bin/bash", "/bin/sh"} {
		if found.Has(shell) {
			rec.Image.Shell = shell
			break
		}
	}
	if _, ok := found.Look("git"); ok || rec.Workspace.Mode == sandbox.WorkspaceNone {
		return nil
	}
	if here, err := os.Getwd(); err == nil && repositoryOf(here) != "" {
		fmt.Fprintf(os.Stderr, "coffer: the image %s has no git: programs can change files, and commit nothing\n", terminal.Escape(rec.Image.Ref))
	}
	return nil
}

// pullImage gets an image and shows progress. After a pull it says which settings of the image are ignored.
func pullImage(ctx context.Context, ref image.Reference, get func(context.Context, image.Reference, image.Options) (*image.Image, error)) (*image.Image, error) {
	p, pulled := ui.NewProgress(), false
	i, err := get(ctx, ref, image.Options{Home: sandbox.Me().Home, Written: writtenInside, Tell: func(what string, done, total int64) {
		pulled = true
		if total == 0 {
			p.Show(what, "")
		} else {
			p.Show(what+", "+size(total), size(done))
		}
	}})
	p.Clear()
	if err == nil && pulled && len(i.Ignored) > 0 {
		fmt.Fprintf(os.Stderr, "coffer: the image sets %s, which coffer ignores: your command runs, as you, in the workspace\n", strings.Join(i.Ignored, ", "))
	}
	return i, err
}
