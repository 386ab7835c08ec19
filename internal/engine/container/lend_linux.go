package container

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/guest/birth"
	"github.com/cofferhq/coffer/internal/rootfs"
	"golang.org/x/sys/unix"
)

// A machine that runs has left the host's root behind, and nothing in it can name a place
// there. What it is to see later is brought by descriptor: a mount of the place that is in no
// namespace yet. To make one takes the right to mount. Root of the host has it; another user
// has it in a namespace of his own, in which a helper lives for just as long.

// LendName is the name under which the binary is that helper.
const LendName = "coffer-lend"

// maxLent is how many descriptors the kernel passes in one message, less a few.
const maxLent = 200

// lendTime is how long the helper may take, and the guest agent to hear of it. A place on a
// file system that does not answer must not hold up the supervisor for ever.
const lendTime = 30 * time.Second

// Lend hands mounts of the host's to the guest agent.
func (i *instance) Lend(batch byte, places []string) error {
	if len(places) > maxLent {
		return fmt.Errorf("%d places are too many", len(places))
	}
	fds, err := i.detach(places)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	return guest.HandBy(time.Now().Add(lendTime), i.control, batch, fds)
}

// detach makes the mounts.
func (i *instance) detach(places []string) (fds []int, err error) {
	if !i.who.Shift {
		return detachAs(i.who, places)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.gone {
		return nil, os.ErrProcessDone
	}
	userns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", i.pid))
	if err != nil {
		return nil, err
	}
	defer userns.Close()
	for _, place := range places {
		fd, err := rootfs.Detach(place, int(userns.Fd()))
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// detachAs has a helper make them.
func detachAs(who birth.IDs, places []string) ([]int, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "lend"), os.NewFile(uintptr(ends[1]), "lend")
	defer ours.Close()
	defer theirs.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lendTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", places...)
	cmd.Args[0] = LendName
	cmd.Dir, cmd.Env = "/", []string{"GOTRACEBACK=none"}
	cmd.ExtraFiles = []*os.File{theirs}
	var said strings.Builder
	cmd.Stderr, cmd.WaitDelay = &said, time.Second
	self := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, AmbientCaps: birth.Capabilities(), Pdeathsig: syscall.SIGKILL,
		UidMappings: self(who.UID), GidMappings: self(who.GID),
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than %s", lendTime)
		} else if said.Len() > 0 {
			err = fmt.Errorf("%s", strings.TrimSpace(said.String()))
		}
		return nil, fmt.Errorf("lend the sandbox a directory: %w", err)
	}
	// It has said all that it had to say.
	theirs.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return guest.Receive(c.(*net.UnixConn), len(places))
}

// LendMain is the helper's life.
func LendMain() int {
	fds, err := lend(os.Args[1:])
	if err == nil {
		var c net.Conn
		if c, err = net.FileConn(os.NewFile(3, "lend")); err == nil {
			err = guest.Hand(c.(*net.UnixConn), 0, fds)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func lend(places []string) (fds []int, err error) {
	// What is mounted on the host from now on must not appear here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	for _, place := range places {
		fd, err := rootfs.Detach(place, -1)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}
