package git

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/cofferhq/coffer/internal/wire"
)

// maxWords bounds what git says besides its answer.
const maxWords = 16 << 10

// far is git inside. It is a stranger, whatever it answers.
type far struct {
	state  *State
	opener wire.Opener
}

// program is a command line of git inside, which uses only the private directory's own
// settings, on a working tree.
func (f far) program(tree string, args ...string) wire.Exec {
	e := wire.Exec{Dir: tree}
	for _, a := range append([]string{"git"}, args...) {
		e.Argv = append(e.Argv, []byte(a))
	}
	for _, v := range []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LC_ALL=C",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_PROTOCOL=version=2",
		"GIT_DIR=" + f.state.InsideDir(), "GIT_WORK_TREE=" + tree,
	} {
		e.Env = append(e.Env, []byte(v))
	}
	return e
}

// run runs a program inside. in may be nil.
func (f far) run(ctx context.Context, e wire.Exec, in io.Reader, out, errs io.Writer) (status int, err error) {
	e.NoInput = in == nil
	p, err := wire.Start(f.opener, e)
	if err != nil {
		return 0, err
	}
	end := sync.OnceFunc(p.Close)
	defer end()
	stop := context.AfterFunc(ctx, end)
	defer stop()
	if err := p.WaitStart(); err != nil {
		return 0, err
	}
	if in != nil {
		go func() {
			io.Copy(p, in)
			_ = p.CloseInput()
		}()
	}
	exit, err := p.Wait(out, errs)
	if err == nil {
		err = ctx.Err()
	}
	return exit.Status(), err
}

// git runs git inside for a short answer: what it prints, or why it fails.
func (f far) git(ctx context.Context, args ...string) (answer string, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, errs := &limited{left: maxWords, drop: true}, &limited{left: maxWords, drop: true}
	status, err = f.run(ctx, f.program(f.state.At(), args...), nil, out, errs)
	if status != 0 {
		return strings.TrimSpace(errs.String()), status, err
	}
	return strings.TrimSuffix(out.String(), "\n"), status, err
}
