package supervisor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// A program in a jail has the same gateway as one in a sandbox, in the process that stays
// with it. There is no sandbox, so what has to be somewhere, the log of what the program
// reached and the socket by which the user answers questions, is in a record of its own,
// in a store beside the sandboxes. It is made when the network is first used.

// JailStore is where the records of jails are, for a store of sandboxes.
func JailStore(store string) string { return filepath.Join(filepath.Dir(store), "jails") }

// mostJails is how many records are kept of jails that have ended.
const mostJails = 20

// Jailed is the network of one jail.
type Jailed struct {
	// Tell is told what the user should know: of refusals, and, at once, of questions.
	Tell func(line string, now bool)

	record sandbox.Record
	store  string

	s      Supervisor // as much of one as there is: the record, the log, the gateway
	mu     sync.Mutex
	failed error
	lock   *sandbox.Lock
	door   net.Listener
	leave  func()
}

// NewJailed is the network that a record speaks of. The record is put into a store when
// there is something to put there.
func NewJailed(store string, rec sandbox.Record) *Jailed {
	return &Jailed{store: JailStore(store), record: rec}
}

// Rules are those that the network has at the start.
func (j *Jailed) Rules() (*policy.Set, error) {
	set, err := Compile(j.record.Network, policy.Source{})
	if err != nil {
		err = fmt.Errorf("the network rules of the jail: %w", err)
	}
	return set, err
}

// Connect starts the gateway at the far end of a link, and returns how to end it.
func (j *Jailed) Connect(l link.Link) (end func(), err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := j.serveLink(l); err != nil {
			j.Tell("the network ended: "+err.Error(), true)
		}
	}()
	return func() {
		l.Close()
		<-done
		j.end()
	}, nil
}

// serveLink serves until the link is closed.
func (j *Jailed) serveLink(l link.Link) error {
	set, err := j.Rules()
	if err != nil {
		l.Close()
		return err
	}
	j.s.Sandbox = &sandbox.Sandbox{Record: j.record}
	config := gateway.Config{
		Policy: set, Audit: j.add, Denied: j.denied, Unreached: func(d gateway.Denial) { j.Tell(notReached(d), false) },
		Asked: j.asked, Allow: allowInJail, HostPorts: hostPorts(j.s.Sandbox.Network), About: gateway.About{Name: "jail"},
	}
	g := gateway.New(l, config)
	j.s.network = &network{gateway: g}
	err = g.Serve()
	if closing := g.Close(); err == nil {
		err = closing
	}
	return err
}

// allowInJail is how the user allows a target, the next time.
func allowInJail(target, protocol string) string {
	if protocol != "" {
		target += "/" + protocol
	}
	return "coffer jail --allow " + target + " …"
}

// open makes the record. If that fails, the network ends: what cannot be written down must
// not happen.
func (j *Jailed) open() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lock != nil || j.failed != nil {
		return j.failed == nil
	}
	if j.failed = j.make(); j.failed != nil {
		j.Tell("the network of this jail ends: "+j.failed.Error(), true)
		go func() { _ = j.s.network.gateway.Close() }() // which waits for whoever has told us
	}
	return j.failed == nil
}

func (j *Jailed) make() error {
	store, err := sandbox.Open(j.store)
	if err != nil {
		return err
	}
	forgetJails(store)
	sb, lock, err := store.Create(j.record)
	if err != nil {
		return err
	}
	j.s.Sandbox = sb
	if j.s.audit, err = openJournal(sb, nil); err != nil {
		lock.Release()
		return err
	}
	j.lock = lock
	j.s.audit.add(audit.Event{Kind: audit.KindStart, Detail: "a jail, network " + sb.Network.Describe()})
	j.s.audit.add(audit.Event{Kind: audit.KindExec, Detail: "in " + sb.Workspace.Path, Command: sb.Command})
	return j.listen()
}

// forgetJails removes the oldest records of jails that have ended.
func forgetJails(store *sandbox.Store) {
	all, _ := store.List()
	all = slices.DeleteFunc(all, func(sb *sandbox.Sandbox) bool { return sb.Running() })
	slices.SortFunc(all, func(a, b *sandbox.Sandbox) int { return b.Created.Compare(a.Created) })
	for _, sb := range all[min(len(all), mostJails):] {
		_ = sb.Remove(os.RemoveAll)
	}
}

// listen opens the socket for 'coffer policy'.
func (j *Jailed) listen() error {
	path, release, err := j.s.Sandbox.Socket()
	if err != nil {
		return err
	}
	door, err := net.Listen("unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			door.Close()
		}
	}
	if err != nil {
		release()
		return fmt.Errorf("listen for commands: %w", err)
	}
	j.door, j.leave = door, release
	go j.serve()
	return nil
}

// serve answers what can be asked about a jail: its network.
func (j *Jailed) serve() {
	for {
		c, err := j.door.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will come back
			continue
		}
		go func() {
			defer c.Close()
			// The program may see this socket, and must not answer its own questions.
			if trusted(c.(*net.UnixConn)) != nil {
				return
			}
			if r, err := wire.ReadRequest(c); err == nil && r.Op == wire.OpPolicy {
				j.s.answerPolicy(c, r.Policy)
			}
		}()
	}
}

func (j *Jailed) add(e audit.Event) {
	if j.open() {
		j.s.audit.add(e)
	}
}

func (j *Jailed) denied(d gateway.Denial) {
	line := fmt.Sprintf("refused %s: %s", destination(d.Host, d.Addr, d.Port), d.Reason)
	if d.Allow != "" {
		line += "; to allow it: " + d.Allow
	}
	j.Tell(line, false)
}

func (j *Jailed) asked(r gateway.Request) {
	if j.open() {
		j.Tell(fmt.Sprintf("%s waits for your answer, until %s: coffer policy answer %d allow --sandbox %s (or deny)",
			Describe(r), r.Until.Local().Format(time.TimeOnly), r.ID, j.s.Sandbox.Name), true)
	}
}

// end closes the log, and the door.
func (j *Jailed) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil {
		j.failed = errors.New("the jail has ended")
	}
	if j.door != nil {
		j.door.Close()
		j.leave()
	}
	if j.lock != nil {
		j.s.audit.close()
		j.lock.Release()
	}
}
