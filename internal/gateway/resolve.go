package gateway

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"strings"
)

// resolve asks the host's resolver, each time anew. A name with a dot is taken as it is: no
// search list of the host may turn it into another one.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if strings.Contains(host, ".") {
		host += "."
	}
	// Elsewhere than on Linux, the system's own resolver knows more than a configuration file.
	r := net.Resolver{PreferGo: runtime.GOOS == "linux"}
	return r.LookupNetIP(ctx, "ip", host)
}
