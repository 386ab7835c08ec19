package jail

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// jail is one run.
type jail struct {
	*Policy
	layout  *layout
	program string
	host    Host
	say     *os.File
	unsaid  error            // why something could not be said
	seen    hidden           // in the context
	signals <-chan os.Signal // for the program
	apart   bool             // in a network namespace
}

// Run runs the policy's program and returns its exit code. What the walls do not hold
// is said before it starts. Without namespaces this process becomes the program, and Run
// returns only if that failed. It keeps the calling thread for good, and the program dies with
// that.
func Run(p Policy, say *os.File) (int, error) {
	j := &jail{Policy: &p, say: say}
	code, err := j.run()
	if errors.Is(err, errExplained) {
		return 0, j.unsaid // which was all there is to do
	}
	return code, err
}

func (j *jail) run() (int, error) {
	runtime.LockOSThread()
	p := j.Policy
	if j.abi() == 0 {
		return 0, ui.Error("this kernel has no Landlock, on which a jail is built", "boot a kernel from 5.13 on with 'landlock' in the lsm= list, or use 'coffer run'")
	}
	var err error
	if err = j.find(); err != nil {
		return 0, err
	}
	if j.seen, err = p.scan(); err != nil {
		return 0, err
	}
	if p.InPlace {
		return 0, j.become()
	}
	// From now on a signal that ends us would leave something behind.
	j.signals = listen()
	for j.apart = p.Net != NetHost && !p.bound; ; j.apart = false {
		code, err := j.runNamespaces()
		switch {
		case j.apart && (errors.Is(err, errNoNet) || errors.Is(err, errRefused)):
		case errors.Is(err, errRefused):
			j.layout.note("%v", err)
			j.deliver()
			return 0, j.become()
		default:
			return code, err
		}
	}
}

// deliver lets the signals that came so far do what they do to a process that does not ask for
// them: this one is about to become the program.
func (j *jail) deliver() {
	signal.Reset(forwarded...)
	for range len(j.signals) {
		_ = unix.Kill(os.Getpid(), (<-j.signals).(syscall.Signal))
	}
}

// abi is the version of Landlock to count with.
func (j *jail) abi() int {
	abi := confine.LandlockABI()
	if j.Policy.abi > 0 {
		abi = min(abi, j.Policy.abi)
	}
	return abi
}

// find finds everything that the policy names.
func (j *jail) find() (err error) {
	if j.Policy.Dir, err = Resolve(j.Policy.Dir); err != nil {
		return err
	}
	if j.program, err = FindProgram(j.Argv[0], j.Policy.Dir, j.Env); err != nil {
		return j.notInstalled(err)
	}
	if j.layout, err = j.Policy.layout(j.program); err != nil {
		return err
	}
	return nil
}

// notInstalled says what to do about an agent that is not on this machine.
func (j *jail) notInstalled(err error) error {
	var failure *wire.Failure
	if j.Agent == nil || !errors.As(err, &failure) || failure.Code != 127 {
		return err
	}
	how := "install it"
	if j.Agent.Package != "" {
		how = "install it (npm install -g " + j.Agent.Package + ")"
	}
	return ui.Hint(err, "%s, or have it in a sandbox, where coffer installs it: coffer ai %s", how, j.Agent.Name)
}

// consider finds the gaps that the walls have on this host. A strict jail has none.
func (j *jail) consider() (Walls, []Gap, error) {
	w, err := j.walls()
	if err != nil {
		return w, nil, err
	}
	gaps := slices.Clone(w.Gaps)
	if j.host.Layer == Namespaces {
		gaps = append(gaps, j.layout.gaps...)
	} else {
		h, err := j.hidden()
		if err != nil {
			return w, nil, err
		}
		if len(h.paths) > 0 {
			gaps = append(gaps, h.gap())
		}
	}
	if !j.Strict || len(gaps) == 0 {
		return w, gaps, nil
	}
	text := "this host cannot hold a strict jail:"
	for _, g := range gaps {
		text += "\n" + g.String()
	}
	return w, gaps, ui.Hint(errors.New(text), "leave out --strict, or use 'coffer run'")
}

// walls are those of the host, with the ports that rules leave where there are only ports.
func (j *jail) walls() (w Walls, err error) {
	if j.Net != NetRules || j.host.Network {
		return j.Walls(j.host), nil
	}
	if j.Rules.Must {
		return w, ui.Error("the rules for the network cannot be kept on this host, which has no network namespaces for users", "go without a network: --net none")
	}
	if j.ports, j.every, err = j.Rules.Ports(); err != nil {
		return w, err
	}
	return j.Walls(j.host), nil
}

// announce says what does not work, and what is not closed.
func (j *jail) announce(w Walls, gaps []Gap) {
	j.tell(j.announcement(w, gaps))
}

func (j *jail) tell(text string) {
	if _, err := fmt.Fprint(j.say, text); err != nil {
		j.unsaid = fmt.Errorf("the output could not be written: %w", cmp.Or(errors.Unwrap(err), err))
	}
}

// announcement is what there is to say before the program runs.
func (j *jail) announcement(w Walls, gaps []Gap) string {
	if j.Quiet && !j.Explain {
		return ""
	}
	if !j.Verbose && !j.Explain {
		gaps = slices.DeleteFunc(slices.Clone(gaps), func(g Gap) bool { return g.Usual })
	}
	var text strings.Builder
	if j.Explain {
		fmt.Fprintln(&text, "the wall: "+j.host.String())
	} else if j.Brief {
		return j.brief(w, gaps)
	}
	for _, n := range slices.Concat(j.layout.notes, w.Notes) {
		fmt.Fprintln(&text, "coffer:", terminal.Escape("note: "+n))
	}
	for _, g := range gaps {
		fmt.Fprintln(&text, "coffer:", terminal.Escape("not closed: "+g.String()))
	}
	return text.String()
}

// brief says in one line that there is something to say.
func (j *jail) brief(w Walls, gaps []Gap) string {
	notes := slices.Concat(j.layout.notes, w.Notes)
	switch {
	case len(gaps) == 1 && len(notes) == 0:
		return "coffer: not closed: " + terminal.Escape(gaps[0].What) + "\n"
	case len(gaps) == 0 && len(notes) == 1:
		return "coffer: " + terminal.Escape(notes[0]) + "\n"
	case len(gaps)+len(notes) > 0:
		return fmt.Sprintf("coffer: %d things are not closed and %d do not work in this jail; put --explain before the rest to see which\n", len(gaps), len(notes))
	}
	return ""
}

// become turns this process into the program.
func (j *jail) become() error {
	j.host = Host{ABI: j.abi(), Layer: Landlock}
	w, gaps, err := j.consider()
	if err != nil {
		return err
	}
	tmp, err := sharedTmp()
	if err != nil {
		return err
	}
	thread := j.thread(w)
	if err := j.layout.openWithoutMounts(thread.Landlock, j.Private, tmp); err != nil {
		return err
	}
	// The descriptors that our caller's shell left open to us go no further.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep inherited descriptors to ourselves: %w", err)
	}
	if err := os.Chdir(j.Policy.Dir); err != nil {
		return fmt.Errorf("enter the directory: %w", err)
	}
	if err := confine.Mark(); err != nil {
		return err
	}
	if err := thread.Confine(); err != nil {
		return err
	}
	// Only now it is certain.
	if j.announce(w, gaps); j.Explain {
		return errExplained
	}
	return launch(j.program, j.Argv, func(path string, argv []string) error {
		return syscall.Exec(path, argv, j.environment(tmp))
	})
}

// environment is the program's, with a directory for temporary files.
func (j *jail) environment(tmp string) []string {
	// The context is a mount point, and git may look for its repository above.
	env := slices.Concat(j.Env, []string{"TMPDIR=" + tmp, "GIT_DISCOVERY_ACROSS_FILESYSTEM=1"})
	if j.Walls(j.host).OnlyPorts {
		env = append(env, "RES_OPTIONS=use-vc") // names are asked for by TCP
	}
	if tmp != "/tmp" && j.Agent != nil && j.Agent.Name == "claude" {
		env = append(env, "CLAUDE_CODE_TMPDIR="+tmp)
	}
	return env
}

// sharedTmp is the directory for temporary files of this user's jails without mounts, which
// cannot have a /tmp of their own. Its parent is open to everybody, so a name may be taken by
// somebody else, or by another namespace's user of the same number.
func sharedTmp() (string, error) {
	for n := range 10 {
		dir := fmt.Sprintf("/tmp/coffer-jail-%d.%d", os.Getuid(), n)
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return "", fmt.Errorf("make a directory for temporary files: %w", err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err == nil && st.Mode == unix.S_IFDIR|0o700 && int(st.Uid) == os.Getuid() {
			return dir, nil
		}
	}
	return "", ui.Error(fmt.Sprintf("no directory for temporary files: /tmp/coffer-jail-%d.* are not yours alone", os.Getuid()), "remove them")
}
