package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// A program in a jail has the same gateway as one in a sandbox, in the process that stays
// with it. There is no sandbox, so the log of what the program reached and the socket by which
// the user answers questions are in a record of their own, in a store beside the sandboxes. It
// is made when the network is first used.

// JailStore is where the records of jails are, for a store of sandboxes.
func JailStore(store string) string { return filepath.Join(filepath.Dir(store), "jails") }

// mostJails is how many records are kept of jails that have ended.
const mostJails = 20

// A Jail is the network of one jail.
type Jail struct {
	// Tell shows a notice: of a refusal, or, at once, of a question.
	Tell func(line string, now bool)

	record sandbox.Record
	store  string
	net    *Network

	mu     sync.Mutex
	failed error
	log    *audit.Log
	lock   *sandbox.Lock
	door   *wire.Door
}

// NewJail is the network that a record describes.
func NewJail(store string, rec sandbox.Record) *Jail {
	return &Jail{store: JailStore(store), record: rec}
}

// Rules are those that the network has at the start.
func (j *Jail) Rules() (*policy.Set, error) {
	set, err := Compile(j.record.Network, policy.Source{})
	if err != nil {
		err = fmt.Errorf("the network rules of the jail: %w", err)
	}
	return set, err
}

// Connect starts the gateway at the far end of a link, and returns how to end it.
func (j *Jail) Connect(l link.Link) (end func(), err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := j.serve(l); err != nil {
			j.Tell("the network ended: "+err.Error(), true)
		}
	}()
	return func() {
		l.Close()
		<-done
		j.end()
	}, nil
}

// serve serves until the link is closed.
func (j *Jail) serve(l link.Link) error {
	set, err := j.Rules()
	if err != nil {
		l.Close()
		return err
	}
	j.net = newNetwork(&sandbox.Sandbox{Record: j.record}, Options{Log: j.add, Tell: func(line string) { j.Tell(line, false) }})
	j.net.fleeting = true
	config := j.net.config(set)
	config.Allow, config.Asked, config.About = allowInJail, j.asked, gateway.About{Name: "jail"}
	j.net.gateway = gateway.New(l, config)
	err = j.net.gateway.Serve()
	return errors.Join(err, j.net.gateway.Close())
}

// allowInJail is the command that allows a target the next time.
func allowInJail(target, protocol string) string {
	if protocol != "" {
		target += "/" + protocol
	}
	return "coffer jail --allow " + target + " …"
}

// open makes the record. If that fails, the network ends: what cannot be logged must not happen.
func (j *Jail) open() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lock != nil || j.failed != nil {
		return j.failed == nil
	}
	if j.failed = j.make(); j.failed != nil {
		j.Tell("the network of this jail ends: "+j.failed.Error(), true)
		go func() { _ = j.net.gateway.Close() }() // which waits for the caller
	}
	return j.failed == nil
}

func (j *Jail) make() error {
	store, err := sandbox.Open(j.store)
	if err != nil {
		return err
	}
	forgetJails(store)
	sb, lock, err := store.Create(j.record)
	if err != nil {
		return err
	}
	if j.log, err = sb.OpenLog(); err != nil {
		lock.Release()
		return err
	}
	j.net.sb, j.lock = sb, lock
	j.log.Add(audit.Event{Kind: audit.KindStart, Detail: "a jail, network " + sb.Network.Describe()})
	j.log.Add(audit.Event{Kind: audit.KindExec, Detail: "in " + sb.Workspace.Path, Command: sb.Command})
	j.door, err = wire.Listen(sb, j.answer)
	return err
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

// answer serves a command, which can ask about the network only.
func (j *Jail) answer(c net.Conn) {
	if r, err := wire.ReadRequest(c); err == nil && r.Op == wire.OpPolicy {
		e, err := j.net.Answer(j.net.sb, r.Policy)
		wire.Reply(c, e, err)
	}
}

func (j *Jail) add(e audit.Event) {
	if j.open() {
		j.log.Add(e)
	}
}

func (j *Jail) asked(r gateway.Request) {
	if j.open() {
		j.Tell(j.net.question(r), true)
	}
}

// end closes the log and the socket.
func (j *Jail) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil {
		j.failed = errors.New("the jail has ended")
	}
	if j.door != nil {
		j.door.Close()
	}
	if j.lock != nil {
		j.log.Add(audit.Event{Kind: audit.KindStop})
		_ = j.log.Close()
		j.lock.Release()
	}
}
