package gitbridge

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"time"
)

// updaterRest is how long a git that moves refs waits for more to move.
const updaterRest = 2 * time.Second

// An updater is a git update-ref that waits for orders. It moves refs a lot at a time, all or
// none of them, as often as it is asked to, until it rests.
type updater struct {
	mu   sync.Mutex
	git  *exec.Cmd // nil while there is none
	in   io.WriteCloser
	out  *bufio.Reader
	stop context.CancelFunc
	idle *time.Timer
}

var errNoUpdater = errors.New("git update-ref does not run")

// wake starts it.
func (u *updater) wake(b *Bridge) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.git != nil {
		u.idle.Reset(updaterRest)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	c := b.refs().command(ctx, "update-ref", "-m", b.why(), "--create-reflog", "--stdin")
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if errors.Join(err1, err2) != nil || c.Start() != nil {
		stop() // then each is started when it is needed
		return
	}
	u.git, u.in, u.out, u.stop = c, in, bufio.NewReader(out), stop
	u.idle = time.AfterFunc(updaterRest, u.rest)
}

// rest ends it.
func (u *updater) rest() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.end()
}

// end is rest for who holds the lock. Whatever was not committed does not happen. It ends when
// it hears no more: a git that is killed may leave a lock.
func (u *updater) end() {
	if u.git == nil {
		return
	}
	u.idle.Stop()
	u.in.Close()
	late := time.AfterFunc(patience, u.stop)
	_ = u.git.Wait()
	late.Stop()
	u.stop()
	u.git = nil
}

// move has refs moved, if it runs, by orders that are one transaction. When it fails nothing has
// moved, and who wants to know why tries it with a git that says so. What is begun is finished,
// and takes no time.
func (u *updater) move(orders string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.git == nil {
		return errNoUpdater
	}
	late := time.AfterFunc(patience, u.stop)
	defer late.Stop()
	_, err := io.WriteString(u.in, orders)
	for _, want := range []string{"start: ok\n", "prepare: ok\n", "commit: ok\n"} {
		said := ""
		if err == nil {
			said, err = u.out.ReadString('\n')
		}
		if err == nil && said != want {
			err = errors.New("git update-ref says " + said)
		}
	}
	if err != nil {
		u.end()
		return err
	}
	u.idle.Reset(updaterRest)
	return nil
}

// why is what a reflog says of a ref that was moved because it moved inside.
func (b *Bridge) why() string { return "coffer: from sandbox " + b.Name }
