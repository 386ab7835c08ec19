package gateway

import (
	"context"
	"math"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Programs connect to the same few names over and over, and a question to the host's
// resolver is the longest part of a connection. So answers are kept for a moment: as long
// as they say themselves, and keepAnswers at most. The addresses are vetted each time
// they are dialled, so nobody gains by an answer that is kept. Failures are not kept.
const (
	keepAnswers = 5 * time.Second
	mostAnswers = 512
)

// resolver asks the host's resolver.
type resolver struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	now  func() time.Time

	mu   sync.Mutex
	kept map[string]keptAnswer
}

type keptAnswer struct {
	addrs []netip.Addr
	until time.Time
}

func newResolver() *resolver {
	return &resolver{dial: (&net.Dialer{}).DialContext, now: time.Now, kept: map[string]keptAnswer{}}
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
	life := &lifetime{}
	life.seconds.Store(math.MaxUint32)
	ask := net.Resolver{
		// Elsewhere, the system's own resolver knows more than a configuration file.
		PreferGo: runtime.GOOS == "linux",
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := r.dial(ctx, network, address)
			if u, ok := c.(*net.UDPConn); ok {
				return &overheard{u, life}, err
			}
			life.seconds.Store(0) // by TCP: too long for the likes of us
			return c, err
		},
	}
	addrs, err := ask.LookupNetIP(ctx, "ip", name)
	if err == nil {
		r.keep(host, addrs, life)
	}
	return addrs, err
}

// keep remembers an answer if it said for how long it holds: not those from the hosts file.
func (r *resolver) keep(host string, addrs []netip.Addr, life *lifetime) {
	seconds := life.seconds.Load()
	if !life.heard.Load() || seconds == 0 || len(addrs) == 0 {
		return
	}
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) >= mostAnswers {
		for h, k := range r.kept {
			if !now.Before(k.until) {
				delete(r.kept, h)
			}
		}
		if len(r.kept) >= mostAnswers {
			return
		}
	}
	r.kept[host] = keptAnswer{addrs, now.Add(min(keepAnswers, time.Duration(seconds)*time.Second))}
}

// lifetime is the shortest of the records that were heard.
type lifetime struct {
	heard   atomic.Bool
	seconds atomic.Uint32
}

// overheard is a connection to a name server, of whose answers we read how long they hold.
type overheard struct {
	*net.UDPConn
	life *lifetime
}

func (o *overheard) Read(b []byte) (int, error) {
	n, err := o.UDPConn.Read(b)
	if err == nil {
		o.life.hear(b[:n])
	}
	return n, err
}

// hear reads an answer. One that cannot be read is not to be kept.
func (l *lifetime) hear(b []byte) {
	var p dnsmessage.Parser
	if _, err := p.Start(b); err != nil || p.SkipAllQuestions() != nil {
		l.shorten(0)
		return
	}
	for {
		h, err := p.AnswerHeader()
		if err == dnsmessage.ErrSectionDone {
			return
		}
		if err != nil || p.SkipAnswer() != nil {
			l.shorten(0)
			return
		}
		l.shorten(h.TTL)
		l.heard.Store(true)
	}
}

func (l *lifetime) shorten(seconds uint32) {
	for {
		was := l.seconds.Load()
		if was <= seconds || l.seconds.CompareAndSwap(was, seconds) {
			return
		}
	}
}
