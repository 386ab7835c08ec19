package gateway

import (
	"fmt"
	"strings"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// Internal decides about coffer's own names, of which no rule decides: [link.HostName],
// which has the ports of the host that were named, and [link.AboutName]. For all others
// it says no.
func Internal(q policy.Query, ports []HostPort) (policy.Decision, bool) {
	d := policy.Decision{Rule: "built-in"}
	switch {
	case q.Host == link.AboutName && q.Port == 80 && q.Protocol != policy.UDP:
		d.Verdict, d.Reason = policy.Allow, "here programs inside learn about their network"
	case q.Host == link.AboutName:
		d.Reason = "only http://" + link.AboutName + "/ is served"
	case q.Host == link.HostName && q.Protocol == policy.UDP:
		d.Reason = "ports of the host are for TCP only"
	case q.Host == link.HostName:
		d.Reason = fmt.Sprintf("this port of the host is not open to the sandbox; a sandbox made with --host-port %d has it", q.Port)
		if to := hostPort(ports, q.Port); to != 0 {
			d.Verdict, d.Rule = policy.Allow, hostPortRule
			d.Reason = fmt.Sprintf("it stands for port %d of the host's loopback", to)
		}
	case strings.HasSuffix(q.Host, "."+link.AboutName):
		d.Reason = "there is no such name"
	default:
		return d, false
	}
	return d, true
}

// hostPortRule is what allows a port of the host.
const hostPortRule = "host port"

// hostPort returns the port of the host that a port inside stands for, or 0.
func hostPort(list []HostPort, inside uint16) uint16 {
	for _, p := range list {
		if p.Inside == inside {
			return p.Outside
		}
	}
	return 0
}
