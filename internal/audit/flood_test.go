package audit

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// counted is a pace at which floods are summarised soon.
var counted = pace{
	tick:  time.Hour,
	burst: 3000, rate: 1, queue: 1 << 20,
}

// In a flood all events and bytes are counted, but few are written.
func TestFlood(t *testing.T) {
	tests := map[string]struct {
		host  func(i int) string
		pace  pace
		lines int // at most
	}{
		"one host":              {func(int) string { return "example.com" }, counted, 40},
		"few hosts":             {func(i int) string { return fmt.Sprint("host-", i%10) }, counted, 60},
		"many hosts":            {func(i int) string { return fmt.Sprint("host-", i) }, counted, 40 + maxDestinations + maxSummaries + 3},
		"no room in memory":     {func(i int) string { return fmt.Sprint("host-", i%10) }, pace{tick: time.Hour, burst: 1 << 40, rate: 1, queue: 1000}, 1 << 30},
		"summary after summary": {func(i int) string { return fmt.Sprint("host-", i) }, pace{tick: time.Nanosecond, burst: 3000, rate: 1, queue: 1 << 20}, 1 << 30},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := Options{Throwaway: true, pace: test.pace}.Open(dir)
			must(t, err)
			const flows, names = 20000, 5000
			for i := range flows {
				e := flow
				e.Host = test.host(i)
				l.Add(e)
				if i%(flows/names) == 0 {
					l.Add(Event{Kind: KindDNS, Host: "x." + e.Host, Verdict: "deny"})
				}
			}
			// A flood of one kind does not hide another.
			l.Add(Event{Kind: KindPolicy, Detail: "changed"})
			must(t, l.Close())

			lines := 0
			count, sent := map[string]int64{}, int64(0)
			must(t, Read(dir, Filter{}, func(r Record) error {
				lines++
				count[r.Kind+" "+r.Verdict] += max(1, r.Count)
				sent += r.Sent
				return nil
			}))
			if count["flow allow"] != flows || count["dns deny"] != names || sent != flows*flow.Sent {
				t.Errorf("counted %v, %d bytes", count, sent)
			}
			if lines > test.lines {
				t.Errorf("%d lines, more than %d", lines, test.lines)
			}
			if p := records(t, dir, KindPolicy); test.pace.queue > 1000 && (len(p) != 1 || p[0].Detail != "changed") {
				t.Errorf("policy: %+v", p)
			}
			verified(t, dir)
		})
	}
}

// After a flood, the first connection to a destination has a line, and so has what is refused at a
// special address.
func TestFloodHidesNothing(t *testing.T) {
	dir := t.TempDir()
	l, err := Options{Throwaway: true, pace: counted}.Open(dir)
	must(t, err)
	for i := range 3 * maxDestinations {
		l.Add(Event{Kind: KindFlow, Host: fmt.Sprint("junk-", i), Port: 443, Verdict: "deny"})
		l.Add(Event{Kind: KindFlow, Addr: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), Port: 80, Verdict: "deny"})
		l.Add(Event{Kind: KindFlow, Host: "ports.example", Port: uint16(i), Verdict: "allow"})
	}
	metadata := netip.MustParseAddr("169.254.169.254")
	for range 2 {
		l.Add(Event{Kind: KindFlow, Host: "allowed.example", Port: 443, Verdict: "allow", Sent: 1 << 20})
		l.Add(Event{Kind: KindFlow, Addr: metadata, Port: 80, Verdict: "deny"})
	}
	must(t, l.Close())
	allowed, special := 0, 0
	must(t, Read(dir, Filter{}, func(r Record) error {
		if r.Count == 0 && r.Host == "allowed.example" && r.Sent == 1<<20 {
			allowed++
		}
		if r.Count == 0 && r.Addr == metadata {
			special++
		}
		return nil
	}))
	if allowed != 1 || special != 1 {
		t.Errorf("%d lines of the allowed host, %d of the special address", allowed, special)
	}
	verified(t, dir)
}

// The allowance comes back.
func TestAllowance(t *testing.T) {
	l := newFlood(pace{burst: 1000, rate: 100})
	now := time.Now()
	l.allow("flow", now).left = -50
	for _, step := range []struct {
		after time.Duration
		want  int
	}{
		{0, -50}, {time.Millisecond, -50}, {100 * time.Millisecond, -40}, {time.Second, 50}, {time.Hour, 1000}, {1000000 * time.Hour, 1000},
	} {
		if got := l.allow("flow", now.Add(step.after)).left; got != step.want {
			t.Errorf("after %s: %d, want %d", step.after, got, step.want)
		}
	}
	if got := l.allow("dns", now).left; got != 1000 {
		t.Errorf("another kind has %d", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	for name, o := range map[string]Options{
		"written":    {Throwaway: true, pace: pace{tick: usual.tick, burst: 1 << 60, rate: 1, queue: usual.queue}},
		"summarised": {Throwaway: true},
	} {
		b.Run(name, func(b *testing.B) {
			l, err := o.Open(b.TempDir())
			must(b, err)
			b.ReportAllocs()
			for b.Loop() {
				l.Add(flow)
			}
			must(b, l.Close())
		})
	}
}

func BenchmarkOpenClose(b *testing.B) {
	for name, o := range map[string]Options{"lasting": {}, "throwaway": {Throwaway: true}} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			write(b, o, dir, 0, 1000)
			for b.Loop() {
				write(b, o, dir, 0, 1)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	write(b, Options{}, dir, 0, 1000)
	for b.Loop() {
		l, err := (Options{}).Open(dir)
		must(b, err)
		must(b, l.Close())
	}
}

func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	write(b, Options{Throwaway: true, pace: fast}, dir, 0, 50000)
	b.ResetTimer()
	for b.Loop() {
		if s := verified(b, dir); s.Events+int(s.Rotated) != 50000 {
			b.Fatal(s)
		}
	}
}
