package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/forward"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/session"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// pidsDefault keeps a runaway program from using up the host's processes.
const pidsDefault = 16384

// A Supervisor is a running sandbox.
type Supervisor struct {
	Sandbox *sandbox.Sandbox

	instance engine.Instance
	session  *wire.Session
	limits   *limits.Group
	reserved *os.File // the workspace's empty .git, while it is reserved
	since    time.Time
	network  *network // nil without one
	audit    *journal
	git      commits
	included included // of other repositories
	keeper   keeper   // of checkpoints
	masks    masks
	nested   nested
	fullDisk fullDisk
	notices  notices
	daemons  session.Daemons
	consents consents

	renewing sync.Mutex // one look at an agent's credentials at a time
	refused  string     // why they were not taken over

	mu       sync.Mutex
	stopping bool          // the sandbox is about to end, see ending.go
	starting int           // programs that the guest is being given
	started  chan struct{} // closed when there are none, once somebody waits
	execs    int
	// preparing is set if the last of them set the sandbox up, for another one to come.
	preparing bool
	idle      *time.Timer
	idleTime  time.Duration
	login     looking
	deadline  *time.Timer
	log       *session.Log // of programs that outlive their commands
	sessions  session.List
	why       string // what ended the sandbox, if it was us
	closed    sync.Once
	rested    chan struct{} // closed when the sandbox was idle for long enough
	resting   sync.Once
	passing   int           // streams between commands and the guest
	passed    chan struct{} // closed when there are none, once somebody waits

	forward *forward.Forwarder
	visits  int           // connections through it
	late    bool          // the idle time is over, but for these
	left    chan struct{} // closed when there are none, once somebody waits
}

// Start boots the sandbox. The caller holds its lock.
func Start(ctx context.Context, e engine.Engine, sb *sandbox.Sandbox) (*Supervisor, error) {
	s := &Supervisor{Sandbox: sb, since: time.Now(), rested: make(chan struct{}), idleTime: sb.Limits.Idle}
	s.forward = forward.New(sb, func(e audit.Event) { s.audit.add(e) }, s.visitors)
	s.keeper.open()
	var err error
	s.limits, err = limits.Prepare(sb.ID, limits.Limits{
		Memory: sb.Limits.Memory, Pids: sb.Limits.Pids, CPUs: sb.Limits.CPUs,
		OpenFiles: sb.Limits.OpenFiles, PidsDefault: pidsDefault,
	})
	if err != nil {
		var no *limits.UnavailableError
		if errors.As(err, &no) {
			err = ui.Error(fmt.Sprintf("cannot limit %s: %s", no.Limit, no.Reason), no.Fix)
		}
		return nil, err
	}
	if err = s.requireAudit(); err == nil {
		s.audit, err = openJournal(sb, s.unlogged)
	}
	if err == nil {
		err = s.boot(ctx, e)
	}
	if err != nil {
		s.cleanUp()
		return nil, err
	}
	s.audit.add(audit.Event{Kind: audit.KindStart, Detail: "network " + sb.Network.Describe()})
	s.overlookHidden(ctx)
	s.watchGit()
	s.resumeUndo(ctx)
	s.watchMasks()
	s.watchDisks()
	if sb.Limits.Timeout > 0 {
		s.deadline = time.AfterFunc(sb.Limits.Timeout, func() {
			s.because(fmt.Sprintf("the time limit of %s was reached", sb.Limits.Timeout))
			s.instance.Kill()
		})
	}
	if err := s.daemons.Start(ctx, sb, session.Host{Programs: s, Ended: s.instance.Done(), Listens: s.listens}); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Supervisor) boot(ctx context.Context, e engine.Engine) (err error) {
	if err := s.forward.Reserve(); err != nil {
		return err
	}
	rules, live, err := Policy(s.Sandbox)
	if err != nil {
		return err
	}
	plan, err := s.plan(ctx)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	s.instance, err = e.Boot(ctx, &engine.Machine{
		Hostname: s.Sandbox.Name, Root: plan,
		Limits: s.limits, FewProcesses: s.Sandbox.Limits.Pids > 0, Nesting: s.Sandbox.Nesting,
		SetID: !s.Sandbox.WritesHost(), NoAllocate: keepFree(s.Sandbox.Limits) > 0, Network: !s.Sandbox.Network.None(),
	})
	if err != nil {
		return err
	}
	if err = s.connect(rules, live); err == nil {
		s.session, err = wire.NewClient(s.instance.Control())
	}
	if err == nil {
		err = layGiven(s.Sandbox)
	}
	if err == nil {
		err = s.forward.Open(s.session)
	}
	if err != nil {
		s.instance.Kill()
		<-s.instance.Done()
	}
	return err
}

// plan decides what the sandbox sees.
func (s *Supervisor) plan(ctx context.Context) (*rootfs.Plan, error) {
	sb, me := s.Sandbox, sandbox.Me()
	includes := s.openIncluded()
	for _, dir := range []string{sb.Home(), sb.Layers()} {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return nil, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(sb.Dir())
	if err != nil {
		return nil, err
	}
	private, err := s.reserveGit()
	if err != nil {
		return nil, err
	}
	hide := []string{filepath.Dir(filepath.Dir(dir))}
	from, err := s.openImage(filepath.Dir(filepath.Dir(dir)))
	if err != nil {
		return nil, err
	}
	bridged, err := s.openGit(ctx)
	if err != nil {
		return nil, err
	}
	gitConfig := ""
	if sb.Workspace.Path != "" {
		gitConfig = git.SystemConfig(ctx, filepath.Join("/", from.tree, "etc"), !sb.Git.NoSettings)
	}
	if sb.Workspace.Mode == sandbox.WorkspaceTree {
		hide = nil // the workspace is in the store, and all that is seen of it
	}
	resolver := ""
	if !sb.Network.None() {
		resolver = "nameserver " + link.Resolver4.String() + "\n"
	}
	mounts, err := showMounts(sb, dir)
	if err != nil {
		return nil, err
	}
	masks, err := s.scanMasks(ctx)
	if err != nil {
		return nil, err
	}
	return rootfs.HostView(rootfs.View{
		Memory: sb.Limits.Memory, CPUs: sb.Limits.CPUs,
		Mounts: mounts, Caches: caches(sb), Profile: rootfs.ProfileText(sb.Workspace.Path, sb.Profile),
		Sandbox: dir, Image: from.tree, Home: me.Home, Workspace: sb.Workspace.Path, Mode: sb.Workspace.Mode,
		Hostname: sb.Name, Passwd: from.passwd, Group: from.group, Login: from.login, Resolver: resolver, GitConfig: gitConfig, Program: program,
		Hide: hide, Git: bridged, Volatile: sb.Ephemeral, Nesting: sb.Nesting, PrivateGit: private,
		Includes: includes, Masks: masks, Programs: s.shims(),
	})
}

// Open opens a stream to the guest agent.
func (s *Supervisor) Open() (io.ReadWriteCloser, error) { return s.session.Open() }

// askGuest asks the guest agent for something that it answers in one message.
func (s *Supervisor) askGuest(r wire.Request, patience time.Duration) (e wire.Event, err error) {
	c, err := s.session.Open()
	if err != nil {
		return e, err
	}
	defer wire.HangUp(c)
	c.SetDeadline(time.Now().Add(patience))
	if err = wire.WriteMessage(c, r); err == nil {
		err = wire.ReadMessage(c, wire.MaxReply, &e)
	}
	return e, err
}

// StopDaemons asks the daemons to end, and waits until they have or their time is over.
func (s *Supervisor) StopDaemons() { s.daemons.Stop() }

// listens says whether something inside listens on a port. The kernel is asked: a daemon may
// complain of a visitor who says nothing, or take it for its only one.
func (s *Supervisor) listens(port uint16) bool {
	return slices.ContainsFunc(s.forward.Listening(), func(p wire.Port) bool { return p.Port == port })
}

// because notes what ended the sandbox, the first reason if there are several.
func (s *Supervisor) because(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == "" {
		s.why = why
	}
}

// Why says what ended the sandbox, empty when a program did so itself.
func (s *Supervisor) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == "" && s.limits.OOMKilled() {
		return "the memory limit was reached"
	}
	return s.why
}

// Stop ends the sandbox: programs are asked to terminate, and after the grace time
// everything is killed.
func (s *Supervisor) Stop(grace time.Duration, why string) {
	started := s.end()
	s.because(why)
	if grace > 0 && s.frozen() == "" {
		s.daemons.Stop()
		select {
		case <-started:
		case <-s.instance.Done():
		case <-time.After(grace):
		}
		if c, err := s.Open(); err == nil {
			_ = wire.WriteRequest(c, wire.Request{Op: wire.OpStop, Stop: &wire.Stop{Grace: grace}})
			select {
			case <-s.instance.Done():
			case <-time.After(grace + time.Second):
			}
		}
	}
	s.instance.Kill()
	<-s.instance.Done()
}

// Kill ends the sandbox at once and does not wait for it.
func (s *Supervisor) Kill() { s.instance.Kill() }

// Close ends the sandbox at once and leaves nothing behind but its folder.
func (s *Supervisor) Close() {
	s.closed.Do(func() {
		if s.deadline != nil {
			s.deadline.Stop()
		}
		s.lastSync()
		s.Stop(0, "")
		s.hearOut()
		s.session.Close()
		s.daemons.Stop()
		s.drain()
		s.endLogin()
		s.cleanUp()
	})
}

// hearOut reads what the guest said last. It is dead, so there is an end to it.
func (s *Supervisor) hearOut() {
	select {
	case <-s.session.CloseChan():
	case <-time.After(time.Second):
	}
}

// drain lets commands read what their programs said last. One that does not read is
// not waited for.
func (s *Supervisor) drain() {
	s.mu.Lock()
	s.passed = make(chan struct{})
	if s.passing == 0 {
		close(s.passed)
	}
	s.mu.Unlock()
	select {
	case <-s.passed:
	case <-time.After(time.Second):
	}
}

// passes counts the streams that are passed on.
func (s *Supervisor) passes(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passing += n
	if s.passing == 0 && n < 0 && s.passed != nil {
		select {
		case <-s.passed:
		default:
			close(s.passed)
		}
	}
}

func (s *Supervisor) cleanUp() {
	if s.instance != nil {
		if words := s.instance.Words(); words != "" {
			fmt.Fprintln(os.Stderr, "the guest agent said:", words)
		}
	}
	s.unwatchMasks()
	s.disconnect()
	_ = s.limits.Close()
	s.forward.Close()
	s.releaseGit()
	s.audit.close()
}
