package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/forward"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/hidden"
	"github.com/cofferhq/coffer/internal/intercept"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/session"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// pidsDefault keeps a runaway program from using up the host's processes.
const pidsDefault = 16384

// A Supervisor is a running sandbox. Its parts own their state; the supervisor starts and ends
// them, and answers commands.
type Supervisor struct {
	Sandbox *sandbox.Sandbox

	// life ends when the sandbox is closed or dead.
	life    context.Context
	endLife context.CancelFunc

	limits   *limits.Group
	instance engine.Instance
	session  *wire.Session
	since    time.Time

	notices     notices
	activity    *activity
	audit       *audit.Log
	reserved    *os.File             // the workspace's empty .git, while it is reserved
	network     *network.Network     // nil without one
	authority   *intercept.Authority // nil unless TLS is looked into
	forward     *forward.Forwarder
	commits     commits
	checkpoints checkpoints
	hidden      *hidden.Files
	disks       disks
	logins      logins
	daemons     session.Daemons
	sessions    session.List

	mu       sync.Mutex
	log      *session.Log // of programs that outlive their commands
	why      string       // what ended the sandbox, if it was us
	deadline *time.Timer
	closed   sync.Once
}

// Start boots the sandbox. The caller holds its lock.
func Start(ctx context.Context, e engine.Engine, sb *sandbox.Sandbox) (*Supervisor, error) {
	s := newSupervisor(sb)
	if err := s.start(ctx, e); err != nil {
		s.cleanUp()
		return nil, err
	}
	s.audit.Add(audit.Event{Kind: audit.KindStart, Detail: "network " + sb.Network.Describe()})
	s.commits.overlook(ctx, s.hidden.Noted(), s.notices.tell)
	s.commits.start(s.life)
	s.checkpoints.resume(ctx)
	s.hidden.Start(s.life)
	s.disks.start(s.life)
	s.logins.start(s.life)
	if sb.Limits.Timeout > 0 {
		s.deadline = time.AfterFunc(sb.Limits.Timeout, func() {
			s.because(fmt.Sprintf("the time limit of %s was reached", sb.Limits.Timeout))
			s.instance.Kill()
		})
	}
	if err := s.daemons.Start(ctx, sb, session.Host{Programs: s, Ended: s.instance.Done(), Listens: s.forward.ListensOn}); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newSupervisor(sb *sandbox.Sandbox) *Supervisor {
	s := &Supervisor{Sandbox: sb, since: time.Now(), activity: newActivity(sb.Limits.Idle)}
	s.life, s.endLife = context.WithCancel(context.Background())
	s.activity.settingUp, s.activity.busy = s.isSettingUp, s.isBusy
	s.forward = forward.New(sb, func(e audit.Event) { s.audit.Add(e) }, s.activity.visit)
	s.commits = commits{opener: s, programs: s.activity.running}
	s.checkpoints = newCheckpoints(s)
	s.hidden = hidden.New(sb, hidden.Host{Ask: s.askGuest, Tell: s.notices.tell, Once: s.notices.once})
	s.logins = logins{sb: sb, notices: &s.notices, running: s.activity.running}
	return s
}

// start takes what the sandbox needs of the host, in order, and boots it.
func (s *Supervisor) start(ctx context.Context, e engine.Engine) (err error) {
	sb := s.Sandbox
	if s.limits, err = prepareLimits(sb); err != nil {
		return err
	}
	if s.audit, err = sb.OpenLog(); err != nil {
		return err
	}
	s.disks = disks{sb: sb, limits: s.limits, notices: &s.notices, log: s.audit}
	if err := s.forward.Reserve(); err != nil {
		return err
	}
	rules, err := network.Load(sb)
	if err != nil {
		return err
	}
	plan, err := s.plan(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	instance, err := e.Boot(ctx, &engine.Machine{
		Hostname: sb.Name, Root: plan,
		Limits: s.limits, Nesting: sb.Nesting,
		SetID: !sb.WritesHost(), NoAllocate: keepFree(sb.Limits) > 0, Network: !sb.Network.None(),
	})
	if err != nil {
		return err
	}
	s.instance = instance
	if err = s.connect(rules); err == nil {
		s.session, err = wire.NewClient(instance.Control())
	}
	if err == nil {
		err = layGiven(sb)
	}
	if err == nil {
		err = s.forward.Open(s.session)
	}
	if err != nil {
		instance.Kill()
		<-instance.Done()
		return err
	}
	go func() {
		<-s.session.CloseChan()
		s.endLife()
	}()
	return nil
}

func prepareLimits(sb *sandbox.Sandbox) (*limits.Group, error) {
	group, err := limits.Prepare(sb.ID, limits.Limits{
		Memory: sb.Limits.Memory, Pids: sb.Limits.Pids, CPUs: sb.Limits.CPUs,
		OpenFiles: sb.Limits.OpenFiles, PidsDefault: pidsDefault,
	})
	var no *limits.UnavailableError
	if errors.As(err, &no) {
		err = ui.Error(fmt.Sprintf("cannot limit %s: %s", no.Limit, no.Reason), no.Fix)
	}
	return group, err
}

// connect starts the gateway at the far end of the machine's link.
func (s *Supervisor) connect(rules *network.Rules) (err error) {
	if s.Sandbox.Network.None() {
		return nil
	}
	l := s.instance.Link()
	if l == nil {
		return ui.Error("this engine gives a sandbox no network", "go without one: --net none")
	}
	if own, ok := l.(interface{ Ports() []uint16 }); ok {
		s.forward.Hide(own.Ports()...)
	}
	s.network, err = network.Start(l, s.Sandbox, rules, network.Options{
		Log: s.audit.Add, Tell: s.notices.tell, Serve: s.serveHost(), Authority: s.authority,
	})
	return err
}

// access says how the files for checkpoints are reached, and which are hidden.
func (s *Supervisor) access() git.Access {
	a := s.hidden.Access()
	if s.Sandbox.Workspace.Mode == sandbox.WorkspaceCOW {
		a.Top = s.insideTop
	}
	return a
}

// insideTop opens the workspace as the sandbox sees it: what it changed lies over what the
// user has, and only there.
func (s *Supervisor) insideTop() (top *checkpoint.Dir, writer int, err error) {
	root, owner, err := s.instance.Root()
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	if owner != os.Geteuid() {
		writer = owner
	}
	top, err = checkpoint.OpenDirStrictly(fmt.Sprintf("/proc/self/fd/%d", root.Fd()), s.Sandbox.Workspace.Path)
	return top, writer, err
}

// Hidden lists the files that are hidden now, and the settings in the workspace that are read-only.
func (s *Supervisor) Hidden() (files []hidden.File, settings []string) {
	return s.hidden.List(), s.hidden.Settings()
}

// LookBack tells the user, once, of files in git's history that would be hidden. place is where it
// is kept what the user knows.
func (s *Supervisor) LookBack(place func() (dir string, err error)) {
	if s.commits.own != nil {
		s.hidden.LookBack(s.commits.own.bridge, place)
	}
}

// Open opens a stream to the guest agent.
func (s *Supervisor) Open() (io.ReadWriteCloser, error) { return s.session.Open() }

// askGuest asks the guest agent for something that it answers in one message.
func (s *Supervisor) askGuest(r wire.Request, patience time.Duration) (wire.Event, error) {
	return wire.Call(s.session, r, patience)
}

const (
	// surveyPatience is how long the guest may take to answer.
	surveyPatience = time.Second
	// lastAnswers is how long a sandbox that ends waits for connections that end too.
	lastAnswers = 500 * time.Millisecond
)

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

// Finish ends a sandbox whose one program has ended. Connections from outside have a moment for
// the program's last answer, and daemons have their time. It does not wait for the machine.
func (s *Supervisor) Finish() {
	s.activity.wait(&s.activity.visits, s.instance.Done(), lastAnswers)
	s.daemons.Stop()
	s.instance.Kill()
}

// Stop ends the sandbox: programs are asked to terminate, and after the grace time
// everything is killed.
func (s *Supervisor) Stop(grace time.Duration, why string) {
	s.activity.end()
	s.because(why)
	if grace > 0 && s.disks.frozen() == "" {
		s.daemons.Stop()
		s.activity.wait(&s.activity.starting, s.instance.Done(), grace)
		if c, err := s.Open(); err == nil {
			_ = wire.WriteMessage(c, wire.Request{Op: wire.OpStop, Stop: &wire.Stop{Grace: grace}})
			select {
			case <-s.instance.Done():
			case <-time.After(grace + time.Second):
			}
		}
	}
	s.instance.Kill()
	<-s.instance.Done()
}

// Close ends the sandbox at once and leaves nothing behind but its folder.
func (s *Supervisor) Close() {
	s.closed.Do(func() {
		if s.deadline != nil {
			s.deadline.Stop()
		}
		select {
		case <-s.instance.Done():
		default:
			s.commits.syncSoon()
		}
		s.Stop(0, "")
		select { // what the guest said last
		case <-s.session.CloseChan():
		case <-time.After(time.Second):
		}
		s.session.Close()
		s.endLife()
		s.daemons.Stop()
		s.commits.close()
		s.checkpoints.close()
		// Commands read what their programs said last. One that does not read is not waited for.
		s.activity.wait(&s.activity.programs, nil, time.Second)
		s.logins.close()
		s.disks.close()
		s.cleanUp()
	})
}

// cleanUp gives back what start took.
func (s *Supervisor) cleanUp() {
	s.endLife()
	if s.instance != nil {
		if words := s.instance.Words(); words != "" {
			fmt.Fprintln(os.Stderr, "the guest agent said:", words)
		}
	}
	s.hidden.Close()
	s.network.Close()
	_ = s.limits.Close()
	s.forward.Close()
	s.releaseGit()
	if s.audit != nil {
		s.audit.Add(audit.Event{Kind: audit.KindStop})
		// A throw-away's folder may be gone already, and the log with it.
		if err := s.audit.Close(); err != nil && !s.Sandbox.Ephemeral {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// ForgetGit takes back what a throw-away has in the user's repository, if it ever had
// something there.
func (s *Supervisor) ForgetGit() { s.commits.forget() }

// CameOut is the sandbox's branch if something that was committed over the user's own directory is
// on it, and it is still checked out inside.
func (s *Supervisor) CameOut() string {
	if s.commits.own == nil {
		return ""
	}
	return s.commits.own.bridge.CameOut()
}
