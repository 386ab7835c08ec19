package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

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
		if here, err = os.Getwd(); err != nil {
			return r, ui.Hint(fmt.Errorf("find the current directory: %w", err), "change to a directory that exists")
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
	s.sayWithoutGit(found, rec)
	return nil
}

// sayWithoutGit says that what is done in a repository cannot be committed inside.
func (s *settings) sayWithoutGit(i *image.Image, rec *sandbox.Record) {
	if rec.Workspace.Mode == sandbox.WorkspaceNone {
		return
	}
	if _, ok := i.Look("git"); ok {
		return
	}
	if here, err := os.Getwd(); err == nil && repositoryOf(here) != "" {
		fmt.Fprintf(os.Stderr, "coffer: the image %s has no git: programs can change files, and commit nothing\n", terminal.Escape(rec.Image.Ref))
	}
}

// pullImage has the store get an image, and shows how that goes on. The first time, it says what
// coffer does not do for the image.
func pullImage(ctx context.Context, ref image.Reference, get func(context.Context, image.Reference, image.Options) (*image.Image, error)) (*image.Image, error) {
	p := &pulling{live: terminal.IsTerminal(2)}
	i, err := get(ctx, ref, image.Options{Home: supervisor.Me().Home, Written: writtenInside, Tell: p.tell})
	p.end()
	if err == nil && p.what != "" && len(i.Ignored) > 0 {
		fmt.Fprintf(os.Stderr, "coffer: the image sets %s, which coffer ignores: your command runs, as you, in the workspace\n", strings.Join(i.Ignored, ", "))
	}
	return i, err
}

// pulling shows how a pull goes on: on a terminal, a line that changes; otherwise one for each
// part of the work.
type pulling struct {
	mu    sync.Mutex
	live  bool
	what  string
	shown time.Time
}

// oftenEnough is how long a line stays as it is.
const oftenEnough = 100 * time.Millisecond

func (p *pulling) tell(what string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := what
	if total > 0 {
		line += ", " + megabytes(done) + " of " + megabytes(total)
	}
	switch again := p.what == what; {
	case p.live && (!again || time.Since(p.shown) >= oftenEnough):
		p.shown = time.Now()
		fmt.Fprintf(os.Stderr, "\r\x1b[Kcoffer: %s", fitting(terminal.Escape(line)))
	case !p.live && !again && total > 0:
		fmt.Fprintf(os.Stderr, "coffer: %s, %s …\n", terminal.Escape(what), megabytes(total))
	case !p.live && !again:
		fmt.Fprintf(os.Stderr, "coffer: %s …\n", terminal.Escape(what))
	}
	p.what = what
}

// end takes the line away.
func (p *pulling) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live && p.what != "" {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}

// fitting shortens a line to what has room: one that is wrapped cannot be erased.
func fitting(line string) string {
	columns, _, err := terminal.Size(2)
	if err != nil || columns == 0 {
		columns = 80
	}
	room := max(columns-len("coffer: ")-1, 1)
	if words := []rune(line); len(words) > room {
		return string(words[:room])
	}
	return line
}

// megabytes is a size for people.
func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
