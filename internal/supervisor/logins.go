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
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/sandbox"
)

const (
	// renewEvery is the least time between two looks, as agents keep other things there too.
	renewEvery = time.Second
	// renewBlind is how often to look where inotify is not to be had.
	renewBlind = 5 * time.Second
)

// logins takes over the tokens that an agent renews while it runs: another sandbox that starts
// meanwhile must not get one that has been used up. While programs run it watches the directories
// of the credentials; an agent that thinks, or waits for its user, wakes nobody.
type logins struct {
	sb      *sandbox.Sandbox
	notices *notices
	running func() int    // how many programs run
	nudges  chan struct{} // a program has started or ended
	work    sync.WaitGroup
	mu      sync.Mutex
	refused string // why tokens were not taken over
}

func (l *logins) start(ctx context.Context) {
	if l.sb.Ephemeral {
		return
	}
	l.nudges = make(chan struct{}, 1)
	l.work.Go(func() {
		followLogin(ctx, l.sb.Dir(), l.sb.Home(), l.nudges, l.running, l.look)
		l.look() // what was renewed just before the sandbox was stopped is not lost
	})
}

// close waits for the last look. The context of start has ended.
func (l *logins) close() { l.work.Wait() }

// nudge looks soon: there may be another agent now.
func (l *logins) nudge() {
	select {
	case l.nudges <- struct{}{}:
	default:
	}
}

// followLogin looks when something happened to the credentials of the agent in a sandbox, or
// after a nudge, until the context ends.
func followLogin(ctx context.Context, dir, home string, nudges <-chan struct{}, running func() int, look func()) {
	var w mask.DirWatch
	defer w.Close()
	for ctx.Err() == nil {
		w.Begin()
		agent := watchCredentials(&w, dir, home) // before the look: nothing is missed in between
		look()
		waiting, stop := context.WithCancel(ctx)
		happened := make(chan struct{})
		go func() {
			defer close(happened)
			switch {
			case !agent, running() == 0: // then commands may write credentials there
				<-waiting.Done()
			case w.Blind():
				sleep(waiting, renewBlind)
			default:
				w.Wait(waiting)
				sleep(waiting, renewEvery)
			}
		}()
		select {
		case <-happened:
		case <-nudges:
		}
		stop()
		<-happened
	}
}

// watchCredentials watches the directories that an agent's credentials are in, or the nearest
// ones above them that exist, and says whether there is an agent. The home is the sandbox's:
// nothing leads out of it.
func watchCredentials(w *mask.DirWatch, dir, home string) bool {
	t, err := agent.ReadTrace(dir)
	if err != nil {
		return false
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return false
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
	return true
}

func (l *logins) look() {
	for _, note := range l.renew() {
		l.notices.once(note, nil)
	}
}

// renew takes over the tokens that an agent inside has renewed. If some are refused, it returns a
// note for the user, once.
func (l *logins) renew() (notes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir := l.sb.Dir()
	_, err := agent.RenewFrom(dir, l.sb.Home())
	words := fmt.Sprint(err)
	if err == nil || words == l.refused {
		return nil
	}
	l.refused = words
	fmt.Fprintln(os.Stderr, words)
	name := "AGENT"
	if t, err := agent.ReadTrace(dir); err == nil {
		name = t.Agent
	}
	return []string{fmt.Sprintf("%s; if that is your login, keep it: coffer login %s --from %s", words, name, l.sb.Name)}
}

// sleep waits for a while. It is false when the context ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
