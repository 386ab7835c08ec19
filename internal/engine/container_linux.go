package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// Container is the engine of Linux namespaces, as an ordinary user, with nothing to install.
//
// Who is who. A program inside is the user outside, with the same id, so that files,
// git's index and agents see what they are used to. How many further ids there are
// depends on who starts it:
//
//   - An ordinary user has one id. Root of the sandbox is then the same id again,
//     seen through a nested user namespace.
//   - An ordinary user with a range in /etc/subuid and newuidmap has 65536: root and
//     the system's accounts inside are ids of that range.
//   - Root of the host must not be inside at all: 65536 ids far above all real users
//     are mapped, and the workspace is mounted with the ids shifted, so that what
//     belongs to root outside belongs to (an unprivileged) root inside.
type Container struct{}

// Name is what config and reports call it.
func (Container) Name() string { return "container" }

// Boot starts the guest agent in namespaces of its own and waits until the sandbox
// stands.
func (Container) Boot(ctx context.Context, m *Machine) (Instance, error) {
	first, err := guest.Start()
	if err != nil {
		return nil, refused(err)
	}
	process, err := os.FindProcess(first.PID) // a child that nobody has waited for
	if err != nil {
		guest.End(first.PID)
		return nil, err
	}
	i := &instance{process: process, who: first.IDs, control: first.Control, done: make(chan struct{})}
	go i.wait(first.Said)
	// Ctrl-C while booting: kill it, and the reads below fail.
	stop := context.AfterFunc(ctx, i.Kill)
	defer stop()
	if err := i.build(m); err != nil {
		i.Kill()
		<-i.done
		i.control.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, refused(err)
	}
	return i, nil
}

// instance is a running container.
type instance struct {
	control *net.UnixConn
	link    link.Link
	// linkKind says which kind it is.
	linkKind string
	words    words
	done     chan struct{}

	who     guest.IDs
	process *os.Process // the first one
}

func (i *instance) wait(said *os.File) {
	_, _ = io.Copy(&i.words, said) // until it has ended, and all others with it
	said.Close()
	_, _ = i.process.Wait()
	close(i.done)
}

// Root opens what the first process has for a root directory.
func (i *instance) Root() (root *os.File, owner int, err error) {
	root, err = os.OpenFile(fmt.Sprintf("/proc/%d/root", i.process.Pid), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("open the sandbox's root directory: %w", err)
	}
	// If it has been waited for, this could be another process's, the host's own.
	if err := i.process.Signal(unix.Signal(0)); err != nil {
		root.Close()
		return nil, 0, err
	}
	if owner = i.who.UID; i.who.Shift {
		owner = guest.Foreign
	}
	return root, owner, nil
}

// Kill ends the first process, and with it all others.
func (i *instance) Kill() { _ = i.process.Kill() }

// build gives the first process its ids, limits and orders.
func (i *instance) build(m *Machine) error {
	who := i.who
	if err := m.Limits.Add(i.process.Pid); err != nil {
		return err
	}
	handed, err := i.hand(m.Root)
	defer func() {
		for _, fd := range handed {
			unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	boot := guest.Boot{
		Plan: m.Root, Hostname: m.Hostname, Handed: len(handed),
		UID: who.UID, GID: who.GID, Alone: who.Count == 1,
		Network: m.Network, Nesting: m.Nesting, SetID: m.SetID, Landlock: confine.LandlockABI() > 0, Rlimits: m.Limits.Rlimits(),
		NoAllocate: m.NoAllocate, Processors: m.Limits.Processors(), Grouped: m.Limits.Grouped(),
	}
	if err := guest.WriteOrders(i.control, boot); err != nil {
		return i.lost(err)
	}
	if len(handed) > 0 {
		if err := guest.Hand(i.control, handed); err != nil {
			return i.lost(err)
		}
	}
	var ready guest.Ready
	if err := wire.ReadMessage(i.control, wire.MaxReply, &ready); err != nil {
		return i.lost(err)
	}
	if ready.Error != "" {
		return errors.New(ready.Error)
	}
	i.linkKind = ready.Link
	if i.link, err = guest.ReceiveLink(i.control, ready); err != nil {
		return fmt.Errorf("take over the sandbox's network: %w", err)
	}
	return nil
}

// hand makes the mounts that the first process may not make itself. Root's own
// directories are closed to the ids inside, so root opens them for it.
func (i *instance) hand(p *rootfs.Plan) (fds []int, err error) {
	if !i.who.Shift {
		return nil, nil
	}
	userns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", i.process.Pid))
	if err != nil {
		return nil, err
	}
	defer userns.Close()
	for n := range p.Steps {
		s := &p.Steps[n]
		if !closed(p, s) {
			continue
		}
		if !s.Mine && !s.ReadOnly {
			// The sandbox's own directory: its root owns it.
			if err := os.Lchown(s.Source, guest.Foreign, guest.Foreign); err != nil {
				return fds, err
			}
		}
		shift := -1
		if s.Mine {
			shift = int(userns.Fd())
		}
		fd, err := rootfs.Detach(s.Source, shift)
		if err != nil {
			if s.Optional {
				continue
			}
			return fds, err
		}
		fds = append(fds, fd)
		s.FD = len(fds)
	}
	return fds, nil
}

// closed says whether the first process could not open what a step shows. The host's system
// directories are open to everybody; those of an image are not the host's, whatever their names.
func closed(p *rootfs.Plan, s *rootfs.Step) bool {
	return (s.Do == rootfs.Bind || s.Do == rootfs.Keep) && !s.Device && (p.Owned || !slices.Contains(p.System, s.Source))
}

// lost explains a first process that died on us.
func (i *instance) lost(err error) error {
	i.Kill()
	<-i.done
	if w := i.Words(); w != "" {
		return fmt.Errorf("the guest agent died: %s", w)
	}
	return fmt.Errorf("the guest agent died: %w", err)
}

func (i *instance) Control() net.Conn     { return i.control }
func (i *instance) Link() link.Link       { return i.link }
func (i *instance) Done() <-chan struct{} { return i.done }
func (i *instance) Words() string         { return i.words.String() }

// words keeps the first of what the agent prints, which is nothing unless it crashes.
type words struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := 4096 - w.buf.Len(); room > 0 {
		w.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	line, _, _ := bytes.Cut(w.buf.Bytes(), []byte("\n"))
	return string(line)
}

// inSandbox says whether this is a sandbox, or a jail, of coffer's, as far as one can tell.
func inSandbox() bool { return os.Getenv("COFFER_SANDBOX") != "" }

const insideFix = "run the program as it is: this is a sandbox already"

// refused turns the kernel's refusal into what the user can do about it.
func refused(err error) error {
	if ui.HintOf(err) != "" {
		return err
	}
	if inSandbox() {
		return ui.Hint(fmt.Errorf("a sandbox cannot be started inside a sandbox: %w", err), "%s", insideFix)
	}
	if fix := namespaceFix(); fix != "" {
		return ui.Hint(err, "%s", fix)
	}
	return ui.Hint(err, "run 'coffer doctor' to see what this host lacks")
}
