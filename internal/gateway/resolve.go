package gateway

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Programs connect to the same few names over and over, and a question to the host's
// resolver is the longest part of a connection. So answers are kept for a moment. The
// addresses are vetted each time they are dialled. Failures are not kept.
const (
	keepAnswers = 2 * time.Second
	maxAnswers  = 512
)

// resolver asks the host's resolver.
type resolver struct {
	ask func(ctx context.Context, name string) ([]netip.Addr, error)
	now func() time.Time

	mu   sync.Mutex
	kept map[string]keptAnswer
}

type keptAnswer struct {
	addrs []netip.Addr
	until time.Time
}

func newResolver() *resolver {
	// Elsewhere than on Linux, the system's own resolver knows more than a configuration file.
	r := net.Resolver{PreferGo: runtime.GOOS == "linux"}
	ask := func(ctx context.Context, name string) ([]netip.Addr, error) { return r.LookupNetIP(ctx, "ip", name) }
	return &resolver{ask: ask, now: time.Now, kept: map[string]keptAnswer{}}
}

// resolve looks a name up. One with a dot is taken as it is: no search list of the host
// may turn it into another one.
func (r *resolver) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	k, ok := r.kept[host]
	r.mu.Unlock()
	if ok && r.now().Before(k.until) {
		return k.addrs, nil
	}
	name := host
	if strings.Contains(host, ".") {
		name += "."
	}
	addrs, err := r.ask(ctx, name)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) >= maxAnswers {
		clear(r.kept)
	}
	r.kept[host] = keptAnswer{addrs, r.now().Add(keepAnswers)}
	return addrs, nil
}
