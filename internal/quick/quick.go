// Package quick is `coffer exec` in a sandbox that runs, for the plain form of the
// command and for the people and programs that wait for it.
//
// It runs while the program is being initialised. Go initialises packages in the order
// of their dependencies, then of their paths, and this one depends on few: it comes
// before the command line's parser, the network, and all that the engines and the
// supervisor need. For an exec none of them is ever set up, and so the time it takes
// stays the same whatever else coffer learns. (The parser and its friends alone take
// 0.25 ms, a fifth of the start of an empty Go program.) What it imports is therefore
// chosen with care; a test sees to it. Where it can be, the program is even asked for before
// that: see package knock.
//
// It does nothing that the long way in cmd/coffer does not do. Whatever is unusual, a
// sandbox that does not run or a command line with more in it, it leaves to that.
package quick

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/inside"
	"github.com/cofferhq/coffer/internal/interrupt"
	"github.com/cofferhq/coffer/internal/quick/knock"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor/line"
)

// A Result is a program that was run, and something that is left to do about it.
type Result struct {
	Command []string
	Sandbox *sandbox.Sandbox // nil if it has gone meanwhile
	Exit    wire.Exit
	Err     error
	// Sweep says that the store has something that a dead process left.
	Sweep bool
}

// Left is the result of this process's quick exec, if there was one and it did not end
// the process: somebody has to say something, or to sweep.
var Left *Result

func init() {
	a, ok := knock.Parse(os.Args)
	if !ok || os.Getenv(knock.Off) != "" {
		return
	}
	var r *Result
	if knock.Made != nil {
		r = carryOn(knock.Made)
	}
	if r == nil {
		r = run(a)
	}
	if r == nil {
		return
	}
	if r.Err == nil && !r.Sweep && !(r.Sandbox != nil && r.Sandbox.MadeGit && rootfs.IsGitDir(r.Sandbox.Workspace.Path)) {
		interrupt.Exit(r.Exit.Status())
	}
	r.Command = a.Command
	Left = r
}

// carryOn goes on with a program that has been asked for, or returns nil if that was not
// heard.
func carryOn(k *knock.Knock) *Result {
	s := wire.NewSocket(k.Socket)
	r := &Result{}
	var opts attach.Options
	if store := open(); store != nil {
		r.Sandbox, _ = store.Get(k.ID) // without it the program runs all the same
		opts.Meanwhile = func() { r.Sweep = store.Littered() }
	}
	if sb := r.Sandbox; sb != nil {
		defer line.TellSuspended(sb, attach.Note)()
		opts.Last = attach.Notes(sb.HasGit())
		if l, err := line.Over(sb); err == nil {
			defer l.Close()
			opts.Notices = l.NoticesSince(k.At)
		}
	}
	r.Exit, r.Err = attach.Asked(wire.Heard(s, k.Said), k.NoInput, opts)
	if errors.Is(r.Err, attach.ErrNotStarted) {
		return nil
	}
	return r
}

// open opens the user's store, or returns nil if that is not as it should be.
func open() *sandbox.Store {
	dir, err := sandbox.DefaultDir()
	if err != nil {
		return nil
	}
	store, err := sandbox.Open(dir)
	if err != nil {
		return nil
	}
	return store
}

// run runs the program, or returns nil if that is not for us to do.
func run(a knock.Args) *Result {
	store := open()
	if store == nil {
		return nil
	}
	sb := find(store, a.Match)
	if sb == nil {
		return nil
	}
	if _, err := os.Lstat(sb.SetupMark()); err == nil {
		return nil // it is not set up
	}
	l, err := line.Connect(sb)
	if err != nil {
		return nil
	}
	defer l.Close()
	e, err := inside.Exec(sb, a.Command, nil, false)
	if err != nil {
		return nil
	}
	if dir := inside.Dir(sb); dir != "" {
		e.Dir = dir
	}
	r := &Result{Sandbox: sb}
	// Other commands sweep first. This one looks while the program starts.
	opts := attach.Options{Last: attach.Notes(sb.HasGit()), Notices: l.Notices(), Meanwhile: func() { r.Sweep = store.Littered() }}
	defer line.TellSuspended(sb, attach.Note)()
	r.Exit, r.Err = attach.Run(context.Background(), l, e, opts)
	if errors.Is(r.Err, attach.ErrNotStarted) {
		return nil
	}
	return r
}

// find finds the one sandbox that is meant, and nil if that is not clear.
func find(store *sandbox.Store, match string) *sandbox.Sandbox {
	if match != "" {
		sb, err := store.Find(match)
		if err != nil {
			return nil
		}
		return sb
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return nil
	}
	over := store.Over(here)
	if len(over) != 1 {
		return nil
	}
	return over[0]
}
