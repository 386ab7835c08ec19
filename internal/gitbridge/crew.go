package gitbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cofferhq/coffer/internal/gitbridge/uploadpack"
	"github.com/cofferhq/coffer/internal/guest/wire"
)

// To start git takes longer than what it has to do here, and somebody waits at the end of
// every command for all of them. But each can be started before it is known what it is for:
// it reads its settings, and waits for its input. So when the first commit of several is
// seen, a crew is hired, and is ready when the commits are to be brought over.

// A crew is the programs that bring one lot of commits over.
type crew struct {
	cancel context.CancelFunc
	aside  string // a directory of objects for what comes, until it is checked
	// Git on the host: taking a pack apart, and whether all is there that objects lead to.
	// They see what is aside.
	unpack, linked *waiting
	objects        *recent                     // git that reads objects, not those that are aside
	config         func() (*Repository, error) // what the configuration says
	ended          sync.WaitGroup

	// And if it may not be plain what there is to do, see gather: git inside, and one on the
	// host that says which objects are there.
	inside *insider
	known  *waiting
}

// insider is git upload-pack inside.
type insider struct {
	*uploadpack.Client
	err  error // instead
	open chan struct{}
	much atomic.Bool // it had more to say than is heard
}

// Prepare hires a crew for the Sync to come, if there is something to bring over. Neither of
// them may be called while the other is at work.
func (b *Bridge) Prepare(ctx context.Context, o wire.Opener) {
	if b.crew != nil || b.check() != nil || ctx.Err() != nil {
		return
	}
	if _, settled := b.Settled(); !settled {
		b.crew, _ = b.hire(ctx, b.whom(o)) // Sync tries again, and says why not
	}
}

// Rest lets those go who wait.
func (b *Bridge) Rest() {
	b.part(b.crew)
	b.parting.Wait()
	b.updater.rest()
}

// part lets a crew go, if there is one. Nobody waits for that but Rest.
func (b *Bridge) part(c *crew) {
	b.crew = nil
	if c != nil {
		b.parting.Go(c.dismiss)
	}
}

// most is how often at most it is not tried again to do without git inside.
const most = 63

// whom is who to call inside: nobody, unless that was not enough the last time.
func (b *Bridge) whom(o wire.Opener) wire.Opener {
	if b.pass == 0 {
		return nil
	}
	return o
}

// hire starts a crew, with somebody inside unless there is nobody to call. They end with
// dismiss, and not with the context.
func (b *Bridge) hire(ctx context.Context, o wire.Opener) (c *crew, err error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	c = &crew{}
	if ctx, c.cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), patienceFetch, errors.New("it took too long")); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	defer func() {
		if err != nil {
			c.dismiss()
			c = nil
		}
	}()
	if o != nil {
		c.inside = b.callInside(ctx, o, &c.ended)
	}
	// By this name git knows it for what it is, should we be killed.
	if c.aside, err = os.MkdirTemp(b.Objects[0], "tmp_objdir-coffer-"); err != nil {
		return c, err
	}
	c.config = sync.OnceValues(func() (*Repository, error) {
		r := &Repository{Common: b.Common, Dir: b.Admin}
		return r, r.readPlain(ctx)
	})
	c.ended.Go(func() { _, _ = c.config() })
	// Git makes only the directories of loose objects.
	if err := os.Mkdir(filepath.Join(c.aside, "pack"), 0o755); err != nil {
		return c, err
	}
	if err := c.startAside(ctx, b, o != nil); err != nil {
		return c, err
	}
	blobs, err := b.History().Blobs(ctx)
	if err != nil {
		return c, err
	}
	c.objects = &recent{Blobs: blobs, kept: map[string][]byte{}, left: maxRecent}
	if o != nil {
		if c.known, err = b.refs().wait(ctx, "cat-file", "--batch-check=%(objectname)", "--buffer"); err != nil {
			return c, err
		}
	}
	b.updater.wake(b)
	return c, nil
}

// startAside starts those who take objects in, aside from the repository's own, and look
// whether they are whole. With somebody inside, what comes is loose objects; else it is a pack.
func (c *crew) startAside(ctx context.Context, b *Bridge, loose bool) (err error) {
	aside := b.refs()
	aside.objects = c.aside
	aside.env = []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoteObjects(b.Objects[0])}
	// Of what comes over most often, one file is written quickly; see Tidy.
	unpack := []string{"index-pack", "--stdin", "--strict"}
	if loose {
		unpack = []string{"unpack-objects", "-q", "--strict"}
	} else {
		aside.config = []string{"core.fsync=none", "pack.threads=1"} // as for the files of objects
	}
	if c.unpack, err = aside.wait(ctx, unpack...); err == nil {
		c.linked, err = aside.wait(ctx, "rev-list", "--objects", "--quiet", "--stdin", "--not", "--all")
	}
	return err
}

// dismiss ends all of it, and takes away what is not needed.
func (c *crew) dismiss() {
	c.cancel()
	for _, w := range []*waiting{c.known, c.unpack, c.linked} {
		if w != nil {
			_, _ = w.end(nil)
		}
	}
	if c.objects != nil {
		c.objects.Close()
	}
	c.ended.Wait()
	if c.aside != "" {
		os.RemoveAll(c.aside)
	}
}

// quoteObjects makes one word of a path in a list of directories.
func quoteObjects(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// callInside starts git upload-pack inside, and hears what it can do.
func (b *Bridge) callInside(ctx context.Context, o wire.Opener, ended *sync.WaitGroup) *insider {
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	i := &insider{open: make(chan struct{})}
	ended.Go(func() {
		err := b.upload(ctx, o, struct {
			io.Reader
			io.Writer
		}{theirIn, theirOut})
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		i.much.Store(errors.Is(err, errLarge))
		theirOut.CloseWithError(err)
		theirIn.CloseWithError(io.ErrClosedPipe)
	})
	ended.Go(func() {
		i.Client, i.err = uploadpack.Open(ourIn, ourOut, cmp.Or(b.Format, "sha1"))
		close(i.open)
		<-ctx.Done()
		ourIn.Close()
		ourOut.Close()
	})
	return i
}

// waiting is git on the host that waits for its input.
type waiting struct {
	*exec.Cmd
	args      []string
	in        io.WriteCloser
	out, errs *limited
	once      sync.Once
	said      string
	err       error
}

// wait starts git, and gives it its input later.
func (h host) wait(ctx context.Context, args ...string) (*waiting, error) {
	w := &waiting{Cmd: h.command(ctx, args...), args: args, out: &limited{left: maxOutput}, errs: &limited{left: maxWords, drop: true}}
	var err error
	if w.in, err = w.StdinPipe(); err != nil {
		return nil, err
	}
	w.Stdout, w.Stderr = w.out, w.errs
	if err := start(w.Cmd); err != nil {
		w.in.Close()
		return nil, missing(err)
	}
	return w, nil
}

// end gives it its input and returns what it says to that. It is done once.
func (w *waiting) end(in io.Reader) (string, error) {
	w.once.Do(func() {
		var sent error
		if in != nil {
			_, sent = io.Copy(w.in, in)
		}
		w.in.Close()
		w.said = ""
		if err := w.Wait(); err != nil {
			w.err = &Error{Args: w.args, Err: err, Said: w.errs.String()}
			// Who hangs up before the end has his reasons, and so has who sends.
			if w.errs.Len() == 0 && sent != nil {
				w.err = fmt.Errorf("git %s: %w", w.args[0], sent)
			}
			return
		}
		w.said, w.err = w.out.String(), sent
	})
	return w.said, w.err
}
