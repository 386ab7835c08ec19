package jail

import (
	"fmt"
	"strings"

	"github.com/cofferhq/coffer/internal/confine"
)

// A Host is what there is to build a jail from.
type Host struct {
	ABI       int // of Landlock
	Layer     Layer
	Processes bool // a process namespace, with a /proc of its own
	Network   bool // a network namespace, for a program that does not have the host's network
}

func (h Host) String() string {
	text := fmt.Sprintf("version %d of Landlock", h.ABI)
	if h.Layer != Namespaces {
		return text + ", no namespaces"
	}
	text += ", mounts of its own"
	if h.Processes {
		text += ", a process namespace"
	}
	if h.Network {
		text += ", a network namespace"
	}
	return text
}

// Walls is what a jail is built of on a host, and where it has gaps.
type Walls struct {
	NoUnix     bool // Unix sockets are switched off
	NoTruncate bool // the filter stands in for an old Landlock
	NoInternet bool // the filter stands in for a network namespace
	OnlyPorts  bool // Landlock does, and keeps programs to some ports

	Gaps  []Gap
	Notes []string // what does not work inside
}

// A Gap is something that a program in the jail can do and should not.
type Gap struct {
	What  string
	Needs string // what it takes to close it
	// Usual says that the best of today's kernels have it, too. Who starts one jail after the
	// other is told only when he asks.
	Usual bool
}

func (g Gap) String() string { return g.What + " (closing that takes " + g.Needs + ")" }

// What it takes to close a gap.
const (
	needsNamespaces = "user and mount namespaces"
	needsProcesses  = "a process namespace"
	needsSixth      = "version 6 of Landlock, Linux 6.12"
	needsNinth      = "version 9 of Landlock"
	needsNetwork    = "a network namespace"
)

// Walls decides how to build the jail on a host. It is where the project's knowledge of
// what each version of the kernel cannot do is kept.
func (p *Policy) Walls(h Host) Walls {
	// Before its third version Landlock lets anybody truncate. A file whose name
	// is known need not be opened for writing to do so; that the filter can see.
	w := Walls{NoTruncate: h.ABI < 3}
	gap := func(needs, format string, args ...any) {
		w.Gaps = append(w.Gaps, Gap{What: fmt.Sprintf(format, args...), Needs: needs})
	}
	spaces := h.Layer == Namespaces
	if !spaces {
		gap(needsNamespaces, "the modes, owners, times and attributes of your files everywhere can be changed")
		gap(needsProcesses, "what is left running in the background goes on after the program's end")
		gap(needsNamespaces, "git's directory, and the settings of agents and editors, can be changed where the program may write")
		gap(needsNamespaces, "files with secrets that you make in the context from now on, such as .env, can be read")
		gap(needsNamespaces, "the command lines of your other programs can be read, and their System V memory reached")
	} else if !h.Processes {
		gap(needsProcesses, "the command lines of your other programs can be read")
	}
	if h.ABI < 6 && !(spaces && h.Processes) {
		gap(needsSixth+", or "+needsProcesses, "your other programs can be sent signals")
	}
	p.sockets(h, &w, gap)
	p.network(h, &w, gap)
	if h.ABI < 2 {
		w.Notes = append(w.Notes, "files cannot be moved from one directory to another, only copied: this Landlock cannot allow it")
	}
	return w
}

// sockets decides about Unix sockets: behind one may be a program that takes orders, the
// session bus or docker. Connecting to a path can be refused by the ninth version of
// Landlock; before it, sockets can be hidden by mounts, as long as they exist already; or
// there are none at all. Abstract ones are closed by the sixth version, and by a network
// namespace.
func (p *Policy) sockets(h Host, w *Walls, gap func(needs, format string, args ...any)) {
	paths, later := h.ABI < 9, false
	if h.Layer == Namespaces {
		paths, later = false, h.ABI < 9
	}
	abstract := h.ABI < 6 && !h.Network
	if !p.Unix && (paths || abstract || later && p.Strict) {
		w.NoUnix = true
		w.Notes = append(w.Notes, "Unix sockets are switched off, because those of your other programs could not be closed (--unix-sockets allows them)")
		return
	}
	if paths {
		gap(needsNinth+", or "+needsNamespaces, "the Unix sockets of your other programs can be connected to: the session bus, docker, ssh and gpg agents")
	}
	if abstract {
		gap(needsSixth+", or "+needsNetwork, "the abstract Unix sockets of your other programs can be connected to: the X server")
	}
	if later {
		w.Gaps = append(w.Gaps, LaterSockets)
	}
}

// LaterSockets is what mounts cannot hide, because it is not there yet.
var LaterSockets = Gap{
	What:  "a Unix socket that another program opens from now on, in a place that can be seen here, can be connected to",
	Needs: needsNinth + ", or --strict", Usual: true,
}

// network decides about IPv4 and IPv6. In a network namespace all of it is in other hands.
// Without one the filter can refuse it altogether, and from its fourth version on Landlock
// can leave TCP to some ports; nothing sees names, or where a datagram goes to.
func (p *Policy) network(h Host, w *Walls, gap func(needs, format string, args ...any)) {
	switch {
	case p.Net == NetHost || h.Network:
	case p.Net == NetNone:
		w.NoInternet = true
		w.Notes = append(w.Notes, "without a network namespace there is no loopback interface either")
	case p.every:
		gap(needsNetwork, "the rules for the network are not kept: all that this machine can reach can be reached, its own services too")
	case h.ABI < 4:
		w.NoInternet = true
		w.Notes = append(w.Notes, "there is no network: rules for it take "+needsNetwork+", or version 4 of Landlock, Linux 6.7")
	default:
		w.OnlyPorts = true
		gap(needsNetwork, "of the rules for the network only the ports are kept: any host can be reached by TCP at %s, this machine too", listPorts(p.ports))
		w.Notes = append(w.Notes, "there is no UDP; names are looked up by TCP, which programs that do so without the C library cannot")
	}
}

func listPorts(ports []confine.PortRange) string {
	var list []string
	for _, r := range ports {
		text := fmt.Sprint(r.First)
		if r.Last > r.First {
			text += fmt.Sprintf("-%d", r.Last)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
