package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/image"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
)

// images is the store of this user's images.
func images() *image.Store { return supervisor.Images(dataDir()) }

// wantedImage is the image that flags and config ask for; nil for this machine's own tools. What a
// flag names is in the current directory, what the config names in the repository.
func (s *settings) wantedImage() (*image.Reference, error) {
	switch {
	case s.image == "" || s.image == config.NoImage:
		return nil, nil
	case s.fromConfig:
		return s.conf.Image()
	}
	r, err := parseImage(s.image)
	return &r, err
}

// parseImage reads the name of an image in an argument.
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
	return r.In(here, supervisor.Me().Home), nil
}

// takeImage has a new sandbox get its tools from an image, which is pulled if it is not here.
func (s *settings) takeImage(ctx context.Context, rec *sandbox.Record) error {
	ref, err := s.wantedImage()
	if ref == nil || err != nil {
		return err
	}
	found, err := pullImage(ctx, *ref, images().Need)
	if err != nil {
		return orGivenUp(ctx, err)
	}
	rec.Image = sandbox.Image{Ref: ref.String(), Digest: found.Digest.String(), Env: found.Env}
	for _, shell := range []string{supervisor.Me().Shell, "/bin/bash", "/bin/sh"} {
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

// pullImage has the store get an image, and shows how that goes on. The first time, it says what
// coffer does not do for the image.
func pullImage(ctx context.Context, ref image.Reference, get func(context.Context, image.Reference, image.Options) (*image.Image, error)) (*image.Image, error) {
	p, pulled := ui.NewProgress(), false
	i, err := get(ctx, ref, image.Options{Home: supervisor.Me().Home, Written: writtenInside, Tell: func(what string, done, total int64) {
		pulled = true
		if total == 0 {
			p.Show(what, "")
		} else {
			p.Show(what+", "+megabytes(total), megabytes(done))
		}
	}})
	p.Clear()
	if err == nil && pulled && len(i.Ignored) > 0 {
		fmt.Fprintf(os.Stderr, "coffer: the image sets %s, which coffer ignores: your command runs, as you, in the workspace\n", strings.Join(i.Ignored, ", "))
	}
	return i, err
}

// megabytes is a size for people.
func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
