package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// journal is the sandbox's audit log. What cannot be written down must not happen: a
// sandbox whose log cannot be opened does not start. That of a throw-away is opened when its
// network has something to say, which most never do; if it cannot be, the network ends.
type journal struct {
	sb     *sandbox.Sandbox
	failed func(error) // if it cannot be opened later, once

	mu   sync.Mutex
	log  *audit.Log
	shut bool
}

// openJournal opens the log of a sandbox, unless it is a throw-away that need not have one.
func openJournal(sb *sandbox.Sandbox, failed func(error)) (*journal, error) {
	j := &journal{sb: sb, failed: failed}
	if j.brief() {
		return j, nil
	}
	if err := j.open(); err != nil {
		return nil, err
	}
	return j, nil
}

// brief says that the log goes with the sandbox.
func (j *journal) brief() bool { return j.sb.Ephemeral && !j.sb.Audit }

// open opens the log. Nobody else has the journal, or the lock is held.
func (j *journal) open() (err error) {
	dir := audit.Dir(j.sb.Dir())
	if j.log, err = (audit.Options{Throwaway: j.brief()}).Open(dir); err != nil {
		if j.sb.Audit {
			err = fmt.Errorf("the administrator requires an audit log: %w", err)
		}
		return ui.Hint(err, "a sandbox runs only with its log: free space, or repair or move away %s", dir)
	}
	return nil
}

// add writes an event. Of a throw-away only its network is of interest, as the log goes
// with the sandbox: a file for its start and stop would cost more than these do.
func (j *journal) add(e audit.Event) {
	if j == nil || j.brief() && (e.Kind == audit.KindStart || e.Kind == audit.KindStop || e.Kind == audit.KindExec) {
		return
	}
	j.mu.Lock()
	var err error
	if j.log == nil && !j.shut {
		if err = j.open(); err != nil {
			j.shut = true
		}
	}
	log := j.log
	j.mu.Unlock()
	switch {
	case log != nil:
		log.Add(e)
	case err != nil && j.failed != nil:
		j.failed(err)
	}
}

func (j *journal) close() {
	if j == nil {
		return // the start was refused before there was one
	}
	j.add(audit.Event{Kind: audit.KindStop})
	j.end()
}

// end closes the log.
func (j *journal) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shut = true
	if j.log != nil {
		// A throw-away's folder may be gone already, and the log with it.
		if err := j.log.Close(); err != nil && !j.brief() {
			fmt.Fprintln(os.Stderr, err)
		}
		j.log = nil
	}
}

// unlogged ends the network of a sandbox whose log cannot be opened.
func (s *Supervisor) unlogged(err error) {
	// The folder of a throw-away goes when it ends, and a connection may end after it.
	if _, gone := os.Lstat(s.Sandbox.Dir()); !errors.Is(gone, fs.ErrNotExist) {
		s.notices.tell(fmt.Sprintf("the network of %s ends: %v", s.Sandbox.Name, err))
		fmt.Fprintln(os.Stderr, "the network ends:", err)
	}
	if s.network != nil {
		go func() { _ = s.network.gateway.Close() }() // which waits for whoever has told us
	}
}

// LogOnce writes an event of a sandbox that does not run. The lock is held.
func LogOnce(sb *sandbox.Sandbox, events ...audit.Event) error {
	j, err := openJournal(sb, nil)
	if err != nil {
		return err
	}
	defer j.end()
	for _, e := range events {
		j.add(e)
	}
	return nil
}
