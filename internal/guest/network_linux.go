package guest

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/cofferhq/coffer/internal/link/kernel"
	"github.com/cofferhq/coffer/internal/link/packet"
	"golang.org/x/sys/unix"
)

// network is the machine's end of a link: sockets to be handed out.
type network struct {
	kind    string
	sockets []*os.File
}

// connect starts to make the network that was asked for, and returns where to wait for
// it. Without one there is a loopback interface.
func connect(wanted bool) func() (network, error) {
	type result struct {
		network
		error
	}
	if !wanted {
		err := loopback()
		return func() (network, error) { return network{}, err }
	}
	made := make(chan result, 1)
	pings, pingable := unix.Open(pingGroups, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	go func() {
		n, err := prepareNetwork()
		made <- result{n, err}
	}()
	return func() (network, error) {
		if pingable == nil {
			letPing(pings) // by now our ids are mapped, as they are not from the beginning
		}
		r := <-made
		return r.network, r.error
	}
}

// MakeNetwork makes a network for a first process that is not the agent, a jail's. ruleless
// makes this a kernel without packet rules.
func MakeNetwork(link, ruleless bool) (kind string, sockets []*os.File, err error) {
	if ruleless {
		withoutRules = "yes"
	}
	n, err := connect(link)()
	return n.kind, n.sockets, err
}

// pingGroups is the file that says whose programs may open sockets for pings: at first
// nobody's, in a new network namespace. It is that of the namespace of who opens it, and has to
// be opened before the machine's own /proc, which has no such file to write to, is in its place.
const pingGroups = "/proc/sys/net/ipv4/ping_group_range"

// letPing lets the sandbox's user ping. Who gets an answer is decided by the link. A kernel
// that does not have it is no reason to do without a sandbox.
func letPing(fd int) {
	defer unix.Close(fd)
	group := strconv.Itoa(unix.Getgid())
	_, _ = unix.Write(fd, []byte(group+" "+group))
}

// withoutRules, if it is not empty, makes this a kernel without packet rules. Only the
// linker can set it, for tests: go build -ldflags '-X …/internal/guest.withoutRules=yes'.
var withoutRules string

func prepareNetwork() (network, error) {
	err := errors.New("this coffer was built to do without packet rules")
	if withoutRules == "" {
		var sockets []*os.File
		if sockets, err = kernel.Prepare(); err == nil {
			return network{KernelLink, sockets}, nil
		}
	}
	// A kernel without packet rules. A stack of our own on the machine's packets
	// is slower, and the same to programs.
	socket, second := packet.Prepare()
	if second != nil {
		return network{}, fmt.Errorf("give the sandbox a network: %w; and without packet rules: %w", err, second)
	}
	return network{PacketLink, []*os.File{socket}}, nil
}

// loopback brings the network namespace's own interface up.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	return nil
}
