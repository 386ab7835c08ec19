package guest

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/sys/unix"
)

// network is the machine's end of a link: sockets to be handed out.
type network struct {
	kind    string
	sockets []*os.File
}

// withoutRules, if it is not empty, makes this a kernel without packet rules. Only the
// linker can set it, for tests: go build -ldflags '-X …/internal/guest.withoutRules=yes'.
var withoutRules string

// MakeNetwork makes the network of a first process, whose ids are mapped, and whose /proc is still the
// host's. Without a link there is a loopback interface. ruleless makes this a kernel without packet rules.
func MakeNetwork(wanted, ruleless bool) (kind string, sockets []*os.File, err error) {
	if !wanted {
		return "", nil, loopback()
	}
	// The sandbox's user may ping: in a new network namespace nobody may, at first. Who gets an answer
	// is decided by the link. A kernel that does not have it is no reason to do without a sandbox.
	group := strconv.Itoa(unix.Getgid())
	_ = os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(group+" "+group), 0)
	err = errors.New("this coffer was built to do without packet rules")
	if withoutRules == "" && !ruleless {
		if sockets, err = link.Prepare(); err == nil {
			return KernelLink, sockets, nil
		}
	}
	socket, second := link.PreparePackets()
	if second != nil {
		return "", nil, fmt.Errorf("give the sandbox a network: %w; and without packet rules: %w", err, second)
	}
	return PacketLink, []*os.File{socket}, nil
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
