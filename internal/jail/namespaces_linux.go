package jail

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/cofferhq/coffer/internal/calm"
	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/halt"
	"github.com/cofferhq/coffer/internal/jail/ahead"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/steps"
	"github.com/cofferhq/coffer/internal/terminal"
	"golang.org/x/sys/unix"
)

// Errors of a host on which a jail must do with less.
var (
	errRefused = errors.New("namespaces are not to be had here")
	errNoProc  = errors.New("a process namespace is not to be had here")
	errNoNet   = errors.New("a network namespace is not to be had here")
)

// What calls are for whose failure means something.
const (
	whatSpaces  = steps.Making
	whatProc    = "mount /proc"
	whatProgram = "execute the program"
	whatNetwork = ahead.WhatNetwork
)

// runNamespaces runs the program in namespaces of its own, which are being made. It fails
// with errRefused, errNoProc or errNoNet if the host does not allow that, and nothing
// has happened yet.
func (j *jail) runNamespaces(sp *spaces) (code int, err error) {
	ended := false
	defer func() {
		if !ended {
			sp.end(true)
		}
	}()
	j.host = Host{ABI: j.abi(), Layer: Namespaces, Processes: sp.alone, Network: j.apart}
	walls, gaps, err := j.consider()
	if err != nil {
		return 0, err
	}
	_, _ = j.signals() // from now on one that ends us would leave the names behind
	held, err := take(j.layout.context, j.layout.reserve, j.store())
	if err != nil {
		return 0, err
	}
	defer held.release()
	j.layout.reserve, j.layout.silent = held.places, held.silent()
	if err := seed(j.layout.seed); err != nil {
		return 0, err
	}
	before := look(j.layout.locked())
	p := &performance{jail: j, walls: walls, gaps: gaps, spaces: sp}
	var others halt.Others
	if !sp.alone {
		others = halt.Below(sp.maker.PID)
	}
	program, err := p.start()
	if err != nil {
		if errors.Is(err, steps.ErrReady) {
			j.announce(walls, gaps)
		}
		shut(sp.sockets) // for the next try
		if p.late != nil {
			p.late.close()
		}
		return 0, err
	}
	p.late.begin(sp, program, func() {
		_ = unix.Kill(program, unix.SIGKILL)
		if sp.alone {
			_ = unix.Kill(sp.maker.PID, unix.SIGKILL)
		}
	})
	code, err = j.mind(program, p.late)
	p.late.end()
	// Nobody may be there any more who could use the names.
	sp.end(!sp.alone || held.any() && !sp.empty())
	ended = true
	if !sp.alone {
		j.endRest(others)
	}
	p.disconnect()
	p.late.heard()
	j.reportReplaced(before)
	return code, err
}

// look remembers which files these are.
func look(paths []string) map[string]os.FileInfo {
	seen := map[string]os.FileInfo{}
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil {
			seen[path] = info
		}
	}
	return seen
}

// reportReplaced tells what of the closed places somebody outside has replaced, as git does
// with its config. The kernel takes a mount away with the file that it was over, and the
// new file is not closed to the program.
func (j *jail) reportReplaced(before map[string]os.FileInfo) {
	for _, path := range slices.Sorted(maps.Keys(before)) {
		now, err := os.Lstat(path)
		if err == nil && !os.SameFile(before[path], now) {
			fmt.Fprintf(j.say, "coffer: %s was replaced while the program ran, which could change it from then on; look at it\n", terminal.Escape(path))
		}
	}
}

// A script is a list of what a process does before it becomes the program.
type script struct{ *steps.List }

func newScript() *script { return &script{&steps.List{}} }

// A performance is one try to run the program in namespaces.
type performance struct {
	*jail
	walls  Walls
	gaps   []Gap
	spaces *spaces
	rules  *confine.Ruleset
	late   *late
	theirs *os.File // its other end, until the script has been forked
	outlet *outlet  // nil if the network has no rules
}

// start writes the script and has it played. It returns the program's process id.
func (p *performance) start() (int, error) {
	j := p.jail
	s, err := p.write()
	if p.rules != nil {
		defer p.rules.Close()
	}
	if p.theirs != nil {
		defer p.theirs.Close()
	}
	// The first process shall become our child, though its parent ends at once.
	if err == nil {
		if err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			err = fmt.Errorf("adopt orphans: %w", err)
		}
	}
	if err == nil {
		err = j.finishSpaces(p.spaces)
	}
	if err != nil {
		return 0, err
	}
	enter := newScript()
	enter.enter(p.spaces)
	s.Before(enter.List)
	if err := closeMemory(true); err != nil {
		return 0, err
	}
	program, err := s.Run()
	if err != nil {
		_ = closeMemory(false) // the next try could not map its ids
	}
	if err == nil && p.wired() {
		p.outlet = &outlet{fds: p.spaces.sockets, packets: p.packets, connect: p.Rules.Connect}
		p.outlet.watch()
	}
	return program, j.explain(err, nil)
}

// write writes down all that is done in the namespaces.
func (p *performance) write() (*script, error) {
	j := p.jail
	c := j.confinement(p.walls)
	c.Landlock.Write = outermost(j.layout.write)
	if j.Private {
		c.Landlock.Read = j.layout.needed()
	}
	rules, err := confine.NewRuleset(c.Landlock)
	if err != nil {
		return nil, err
	}
	s := newScript()
	p.rules = rules
	filter, err := confine.SeccompFilter(c.Seccomp)
	if err != nil {
		return nil, err
	}
	sockets, err := j.sockets()
	if err != nil {
		return nil, err
	}
	secrets, err := j.hidden()
	if err != nil {
		return nil, err
	}
	for _, file := range secrets.keep {
		j.layout.protect(j.layout.context, rootfs.Place{Path: file}, nil)
	}
	if len(secrets.repos) > 0 && !slices.Contains(j.layout.notes, secrets.note()) {
		j.layout.note("%s", secrets.note())
	}
	view := j.layout.build(s, j.Private, sockets)
	view.hide(j.layout, secrets)
	if j.wired() {
		view.resolver(link.Resolver4)
	}
	if p.theirs, err = p.watchLate(s, view.below, secrets); err != nil {
		return nil, err
	}
	if p.spaces.alone {
		s.processes()
	}
	s.confine(rules, filter, view.fresh, p.spaces.alone)
	// Only now it is certain which layer it is, and what there is to say about it.
	if j.Explain {
		s.Act("explain", steps.Ready)
	} else if text := j.announcement(p.walls, p.gaps); text != "" {
		s.Call("say what is not closed", unix.SYS_WRITE, j.say.Fd(), s.Text(text), uintptr(len(text))).Anyway = true
	}
	s.become(j.program, j.Argv, j.environment("/tmp"), j.Policy.Dir, p.theirs.Fd())
	return s, nil
}

// wired says whether there is a network with rules, in a namespace of its own.
func (j *jail) wired() bool { return j.apart && j.Net == NetRules }

// disconnect ends the network.
func (p *performance) disconnect() {
	if p.outlet == nil {
		return
	}
	if err := p.outlet.close(); err != nil {
		fmt.Fprintln(p.say, "coffer: there was no network:", terminal.Escape(err.Error()))
	}
}

// explain says what the failure of a call means.
func (j *jail) explain(err error, entering []string) error {
	var at *steps.Error
	if !errors.As(err, &at) {
		return err
	}
	switch at.What {
	case whatProc:
		return fmt.Errorf("%w: %w", errNoProc, err)
	case whatProgram:
		return notExecuted(j.program, at.Err)
	case whatNetwork:
		return fmt.Errorf("%w: %w", errNoNet, err)
	case whatSpaces:
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	for _, what := range entering {
		// Some systems let everybody make namespaces and nobody use them.
		if at.What == what && (at.Err == unix.EPERM || at.Err == unix.EACCES || at.Err == unix.EINVAL) {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	return fmt.Errorf("build the jail: %w", err)
}

// loopback brings the network namespace's own interface up.
func (s *script) loopback() {
	up := &struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(up.name[:], "lo")
	fd := s.Result(s.Call(whatNetwork, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
	s.Call(whatNetwork, unix.SYS_IOCTL, 0, unix.SIOCSIFFLAGS, steps.Data(s.List, up)).With(0, fd)
}

// processes goes on in the process namespace, in which only those are that are forked from
// now on, as a child of the process outside.
func (s *script) processes() {
	s.closeCopy()
	s.Act("enter the process namespace", steps.Twin)
	s.Call(whatProc, unix.SYS_MOUNT, s.Text("proc"), s.Text("/proc"), s.Text("proc"),
		unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY)
}

// closeMemory closes this process's memory, with its environment and all, to programs of the
// same user: processes that share it, or have a copy, are in the jail. (Landlock keeps the
// program from them already.)
func closeMemory(closed bool) error {
	open := uintptr(1)
	if closed {
		open = 0
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, open, 0, 0, 0); err != nil {
		return fmt.Errorf("close this process to others: %w", err)
	}
	return nil
}

// closeCopy does so for a process that has a copy.
func (s *script) closeCopy() {
	if !steps.Shared {
		s.Call("close this process to others", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	}
}

// confine gives up what confinement.apply gives up, in the same order.
func (s *script) confine(rules *confine.Ruleset, filter []unix.SockFilter, fresh []string, processes bool) {
	// A kernel without keyrings has none to leave.
	s.Call("leave the session keyring", unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0).Forgive(0, unix.ENOSYS)
	s.Call("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	// What is new in the view could not be in the rules yet.
	for _, path := range fresh {
		s.allow(rules, path, rules.Write|rules.Read)
	}
	if processes && rules.Read != 0 {
		s.allow(rules, "/proc", rules.Read)
	}
	s.Call("restrict files", unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules.FD), rules.Flags)
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		// An old kernel does not know the last ones; without the right to, nobody
		// can draw on them anyway.
		s.Call("drop a capability", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c).Forgive(0, unix.EINVAL, unix.EPERM)
	}
	s.Call("drop ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	s.Call("drop capabilities", unix.SYS_CAPSET,
		steps.Data(s.List, &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), steps.Data(s.List, &[2]unix.CapUserData{}))
	s.Call("filter system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		steps.Data(s.List, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
}

// allow adds a rule about a place.
func (s *script) allow(rules *confine.Ruleset, path string, rights uint64) {
	here := int64(unix.AT_FDCWD)
	rule := &unix.LandlockPathBeneathAttr{Allowed_access: rights}
	s.Call("find "+path, unix.SYS_OPENAT, uintptr(here), s.Text(path), unix.O_PATH|unix.O_CLOEXEC).Point = &rule.Parent_fd
	s.Call("allow "+path, unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules.FD), unix.LANDLOCK_RULE_PATH_BENEATH, steps.Data(s.List, rule))
}

// become executes the program, or a shell for a script that names no interpreter.
func (s *script) become(path string, argv, env []string, dir string, parent uintptr) {
	s.Call("enter the directory "+dir, unix.SYS_CHDIR, s.Text(dir))
	// The descriptors that our caller's shell left open to us go no further.
	s.Call("keep inherited descriptors", unix.SYS_CLOSE_RANGE, 3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	s.Call("limit open files", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, steps.Data(s.List, openFiles()), 0)
	calm.Undo(s.List)
	// So that no supervisor of the user's takes it for the user: see confine.Mark.
	s.Call("mark the program", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, steps.Data(s.List, &unix.Rlimit{}), 0)
	// The program dies with the thread that forked it.
	s.Call("die with the parent", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	// Which may have ended before: then nobody hears this.
	s.Call("greet the parent", unix.SYS_SENDTO, parent, s.Bytes(make([]byte, 1)), 1, unix.MSG_NOSIGNAL, 0, 0)
	s.Act("hear signals", steps.Hear)
	s.Call(whatProgram, unix.SYS_EXECVE, s.Text(path), s.Texts(argv), s.Texts(env)).Forgive(0, unix.ENOEXEC)
	s.Call(whatProgram, unix.SYS_EXECVE, s.Text("/bin/sh"), s.Texts(append([]string{"sh", path}, argv[1:]...)), s.Texts(env))
}

// openFiles is the limit that this process was started with. Go has raised its own, so that
// it has to be asked of who started it.
func openFiles() *unix.Rlimit {
	var own, parent unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &own)
	if unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, nil, &parent) != nil {
		parent.Cur = 1024
	}
	own.Cur = min(own.Cur, parent.Cur)
	return &own
}

// notExecuted is about a program that is there but could not be executed.
func notExecuted(path string, errno unix.Errno) error {
	if errno == unix.ENOENT {
		return &wire.Failure{Code: 127, Message: fmt.Sprintf("%q, or its interpreter, is not to be seen in the jail", path)}
	}
	return &wire.Failure{Code: 126, Message: fmt.Sprintf("%q cannot be executed: %v", path, errno)}
}
