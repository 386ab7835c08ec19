package supervisor

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/watch"
)

// An agent renews its token while it runs, and another sandbox that starts meanwhile must
// not get one that has been used up. The kernel tells when something happens where the
// credentials are: an agent that thinks, or waits for its user, wakes nobody.
const (
	// renewEvery is the least time between two looks, as agents keep other things there too.
	renewEvery = time.Second
	// renewBlind is how often to look where the kernel does not tell.
	renewBlind = 5 * time.Second
)

// looking is what looks at an agent's credentials, while programs run. The supervisor's lock
// guards it.
type looking struct {
	stop context.CancelFunc // ends it; nil while nobody looks
	work sync.WaitGroup
	over bool // nobody is to begin any more
}

// watchLogin begins to look, when a program starts, if there is an agent. The lock is held.
func (s *Supervisor) watchLogin() {
	if s.Sandbox.Ephemeral || s.login.over {
		return
	}
	if _, err := agent.ReadTrace(s.Sandbox.Dir()); err != nil {
		return
	}
	if s.login.stop != nil {
		s.login.stop() // it may be another agent now
	}
	ctx, stop := context.WithCancel(context.Background())
	s.login.stop = stop
	s.login.work.Go(func() { followLogin(ctx, s.Sandbox.Dir(), s.Sandbox.Home(), s.renewLogin) })
}

// restLogin ends the looking, after one more look, when nothing runs any more. The lock is
// held.
func (s *Supervisor) restLogin() {
	if s.login.stop == nil {
		return
	}
	s.login.stop()
	s.login.stop = nil
	s.login.work.Go(s.renewLogin)
}

// endLogin ends the looking for good, and waits for the last look: what an agent renewed
// just before its sandbox was stopped is not lost.
func (s *Supervisor) endLogin() {
	s.mu.Lock()
	s.login.over = true
	s.restLogin()
	s.mu.Unlock()
	s.login.work.Wait()
}

// followLogin looks when something happened to the credentials of the agent in a sandbox,
// until the context ends.
func followLogin(ctx context.Context, dir, home string, look func()) {
	var w watch.Watch
	defer w.Close()
	for ctx.Err() == nil {
		w.Begin()
		watchCredentials(&w, dir, home) // before it is looked at: nothing is missed in between
		look()
		pause := renewEvery
		if w.Blind() {
			pause = renewBlind
		} else {
			w.Wait(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// watchCredentials watches the directories that an agent's credentials are in, or the
// nearest ones above them that exist. The home is the sandbox's: nothing leads out of it.
func watchCredentials(w *watch.Watch, dir, home string) {
	t, err := agent.ReadTrace(dir)
	if err != nil {
		return
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return
	}
	defer root.Close()
	for _, c := range t.Credentials {
		// Another sandbox may renew it.
		if f, err := os.OpenFile(filepath.Join(t.Store, t.Agent, path.Dir(c.Name)), os.O_RDONLY|syscall.O_DIRECTORY, 0); err == nil {
			w.Add(int(f.Fd()))
			f.Close()
		}
		for at := path.Dir(c.Name); ; at = path.Dir(at) {
			f, err := root.OpenFile(at, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
			if err == nil {
				w.Add(int(f.Fd()))
				f.Close()
			}
			if err == nil || at == "." {
				break
			}
		}
	}
}

// renewLogin takes over tokens that an agent inside has renewed.
func (s *Supervisor) renewLogin() {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	_, err := agent.RenewFrom(s.Sandbox.Dir(), s.Sandbox.Home())
	if words := fmt.Sprint(err); err != nil && words != s.refused {
		fmt.Fprintln(os.Stderr, words)
		s.notices.once(fmt.Sprintf("%s; if that is your login, keep it: coffer login %s --from %s", words, agentOf(s.Sandbox.Dir()), s.Sandbox.Name))
		s.refused = words
	}
}

// agentOf is the agent that was last started in a sandbox with this folder.
func agentOf(dir string) string {
	t, err := agent.ReadTrace(dir)
	if err != nil {
		return "AGENT"
	}
	return t.Agent
}
