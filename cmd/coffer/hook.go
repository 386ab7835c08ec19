package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// gitHook runs a hook of the repository in the sandbox, as far as there is one.
func gitHook(ctx context.Context, folder, name string, args []string) error {
	environ := os.Environ()
	for _, v := range environ { // it is about this hook, and not about what we start
		if name, _, _ := strings.Cut(v, "="); name == "GIT_DIR" || name == "GIT_INDEX_FILE" || name == "GIT_WORK_TREE" || name == "GIT_PREFIX" {
			os.Unsetenv(name)
		}
	}
	b, err := git.Open(folder)
	if err != nil {
		return err
	}
	if git.Decides(name) {
		if own := b.OwnHook(ctx, name); own != "" {
			fmt.Fprintf(os.Stderr, "coffer: your own %s is not run in the worktree of a sandbox\n", terminal.Escape(own))
		}
	}
	h, err := b.Hook(ctx, name, args, environ)
	if err != nil || h == nil {
		return err
	}
	exit, err := runHook(ctx, b, h)
	switch {
	case err != nil && !h.Needed():
		fmt.Fprintf(os.Stderr, "coffer: the hook %s was not run in sandbox %s: %s\n", name, b.Name, terminal.Escape(err.Error()))
		return nil
	case err != nil:
		return ui.Hint(fmt.Errorf("the hook %s could not be run in sandbox %s: %w", name, b.Name, err), "skip the hooks with --no-verify")
	case exit != 0:
		return status(exit)
	}
	return nil
}

func runHook(ctx context.Context, b *git.Bridge, h *git.Hook) (exit int, err error) {
	sb, err := sandboxOf(b)
	if err != nil {
		return 0, err
	}
	s := settings{env: h.Env, dir: h.Dir}
	e, err := s.exec(sb, h.Argv)
	if err != nil {
		return 0, err
	}
	e.NoInput = h.Input == nil
	line, p, err := startIn(ctx, sb, e)
	if err != nil {
		return 0, err
	}
	defer line.Close()
	defer p.Close()
	if h.Input != nil {
		go func() {
			_, _ = io.Copy(p, h.Input)
			_ = p.CloseInput()
		}()
	}
	answer := &bounded{left: git.MaxHookAnswer}
	// What it prints is a stranger's, between git's own lines on the user's terminal.
	words, finish := terminal.Guard(os.Stderr)
	ended, err := p.Wait(answer, words)
	finish()
	if err == nil && answer.left < 0 {
		err = errors.New("it answers too much")
	}
	if err != nil || ended.Status() != 0 {
		return ended.Status(), err
	}
	return 0, h.Finish(ctx, answer.Bytes(), func(commit string) error {
		return supervisor.FetchCommit(line, b.Folder(), commit)
	})
}

// startIn starts a program in a sandbox, which may be on its way out.
func startIn(ctx context.Context, sb *sandbox.Sandbox, e wire.Exec) (line *wire.Line, p *wire.Process, err error) {
	for range 20 {
		if line, err = supervisor.Reach(ctx, sb, nil); err != nil {
			return nil, nil, err
		}
		if p, err = wire.Start(line, e); err == nil {
			if err = p.WaitStart(); err == nil {
				return line, p, nil
			}
			p.Close()
		}
		line.Close()
		if !errors.Is(err, wire.ErrGone) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, nil, err
}

// sandboxOf finds the sandbox that a bridge belongs to, in whatever store it is.
func sandboxOf(b *git.Bridge) (*sandbox.Sandbox, error) {
	folder := b.Folder()
	if b.Include != "" {
		folder = filepath.Dir(filepath.Dir(folder))
	}
	store, err := sandbox.Open(filepath.Dir(folder))
	if err != nil {
		return nil, err
	}
	return store.Get(b.ID)
}

// bounded keeps so much and no more.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrShortBuffer
	}
	return b.Buffer.Write(p)
}
