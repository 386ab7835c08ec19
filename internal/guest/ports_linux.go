package guest

import (
	"bufio"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/wire"
)

// ports tells which ports programs inside listen on.
func (a *agent) ports(s net.Conn, q wire.Survey) {
	found := listening()
	found = slices.DeleteFunc(found, func(l listener) bool { return slices.Contains(q.Except, l.port) })
	found = found[:min(len(found), wire.MaxPorts)]
	name(found)
	var all wire.Ports
	for _, l := range found {
		all.Listening = append(all.Listening, wire.Port{Port: l.port, Address: l.addr.String(), Program: l.program})
	}
	_ = wire.WriteMessage(s, wire.Event{Ports: &all})
	wire.HangUp(s)
}

// listener is a socket that listens.
type listener struct {
	addr    netip.Addr
	port    uint16
	inode   uint64
	program string
}

// maxTable bounds how much of the kernel's table is read. Those that listen come first.
const maxTable = 1 << 20

// listening lists what listens in the sandbox's network, each port once, in order. A family that the
// kernel does not have has none.
func listening() (all []listener) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if f, err := os.Open(table); err == nil {
			all = append(all, readTable(io.LimitReader(f, maxTable))...)
			f.Close()
		}
	}
	slices.SortStableFunc(all, func(a, b listener) int { return int(a.port) - int(b.port) })
	return slices.CompactFunc(all, func(a, b listener) bool { return a.port == b.port })
}

// readTable reads a table such as /proc/net/tcp, and skips what it does not understand.
func readTable(r io.Reader) (all []listener) {
	const local, state, inode = 1, 3, 9 // columns
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) <= inode || f[state] != "0A" {
			continue
		}
		at, err := address(f[local])
		n, err2 := strconv.ParseUint(f[inode], 10, 64)
		if err == nil && err2 == nil {
			all = append(all, listener{addr: at.Addr(), port: at.Port(), inode: n})
		}
	}
	return all
}

// address reads 0100007F:1F90. The address is in words of four bytes, each in the order
// of the machine, which is little-endian.
func address(s string) (none netip.AddrPort, err error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if err != nil {
		return none, err
	}
	if len(b)%4 != 0 {
		return none, errors.New("not an address")
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || n == 0 {
		return none, errors.New("not an address")
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

// Bounds on the search for who listens. Anybody inside may have many descriptors.
const (
	maxProcesses   = 2000
	maxDescriptors = 20000 // of all together
)

// name finds the programs that listen, by looking through their descriptors.
func name(all []listener) {
	if len(all) == 0 {
		return
	}
	missing := map[string]*listener{}
	for i := range all {
		missing["socket:["+strconv.FormatUint(all[i].inode, 10)+"]"] = &all[i]
	}
	looked := 0
	for _, pid := range numbered("/proc", maxProcesses) {
		dir := "/proc/" + pid
		for _, fd := range numbered(dir+"/fd", maxDescriptors) {
			if looked++; looked > maxDescriptors || len(missing) == 0 {
				return
			}
			to, err := os.Readlink(dir + "/fd/" + fd)
			if err != nil {
				continue
			}
			if l := missing[to]; l != nil {
				l.program = command(dir)
				delete(missing, to)
			}
		}
	}
}

// command is what the kernel calls a process: at most 15 bytes.
func command(dir string) string {
	b, err := os.ReadFile(dir + "/comm")
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimRight(string(b), "\n"), "\uFFFD")
}

// numbered lists the entries of a directory that are numbers, at most so many.
func numbered(dir string, most int) (names []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	all, _ := f.Readdirnames(most)
	for _, n := range all {
		if _, err := strconv.Atoi(n); err == nil {
			names = append(names, n)
		}
	}
	return names
}
