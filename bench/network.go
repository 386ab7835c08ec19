package main

import (
	"fmt"
	"slices"
)

// networkCost is what a sandbox's network costs, beside no sandbox and beside
// the user-mode networks that other sandboxes use.
//
// All of it is measured in one network namespace of the bench's own, the
// world: it has a loopback interface and one that leads nowhere, so nothing that
// is sent there can leave the machine. Servers and gateways are in the world, and every
// contender but the direct one sends from a namespace below it. In each of
// these waits a client (networkclient.go) for a word from the bench.
type networkCost struct {
	When    string        `json:"when"`
	Rounds  int           `json:"rounds"`
	Load    string        `json:"load_before"`
	Bulk    []bulk        `json:"bulk,omitempty"`
	Connect []series      `json:"connect,omitempty"` // until the first byte is back
	Named   []series      `json:"connect_by_name,omitempty"`
	DNS     []series      `json:"dns,omitempty"`
	Crowds  []connections `json:"connections,omitempty"`
	Start   []series      `json:"start,omitempty"`

	Decisions *decisions `json:"decisions,omitempty"`
}

// bulk is one kind of transfer, by all contenders.
type bulk struct {
	Name  string `json:"name"`
	Rates []rate `json:"rates"`
}

// rate is what was measured of one contender's throughput, in Gbit/s.
type rate struct {
	Name        string  `json:"name"`
	Command     string  `json:"command"`
	Version     string  `json:"version,omitempty"`
	NotMeasured string  `json:"not_measured,omitempty"`
	Samples     int     `json:"samples,omitempty"`
	Failures    int     `json:"failures,omitempty"`
	P10         float64 `json:"p10_gbit,omitempty"`
	P50         float64 `json:"p50_gbit,omitempty"`
	Max         float64 `json:"max_gbit,omitempty"`
	Ratio       float64 `json:"p50_ratio,omitempty"` // to direct
	// CPU is what client, carrier and server used together, in seconds for a
	// gigabyte. Other load on the machine hardly changes it.
	CPU float64 `json:"cpu_s_per_gb,omitempty"`
}

// connections is what many of them at once cost the process that carries them.
type connections struct {
	Name        string  `json:"name"`
	NotMeasured string  `json:"not_measured,omitempty"`
	Asked       int     `json:"asked,omitempty"`
	Served      int     `json:"served,omitempty"` // that still answered when all were open
	RSS         float64 `json:"rss_mb,omitempty"`
	Before      float64 `json:"rss_before_mb,omitempty"`
}

// Names of the contenders.
const (
	nameDirect    = "direct"
	nameNetRun    = "coffer run"
	nameNetExec   = "coffer exec"
	namePacket    = "coffer, packets"
	nameSlirp     = "slirp4netns"
	namePasta     = "pasta"
	nameNetNone   = "coffer run --net none"
	nameAllowed   = "coffer, allowed name"
	nameRefused   = "coffer, refused name"
	nameAllowed2  = "packets, allowed name"
	nameRefused2  = "packets, refused name"
	nameDirectDNS = "direct, the server"
)

// The kinds of bulk.
const (
	bulkUp    = "bulk up"
	bulkDown  = "bulk down"
	bulkUp8   = "bulk up, 8 streams"
	bulkDown8 = "bulk down, 8 streams"
)

// The goals for the network.
const (
	kernelBar  = 0.45 // × direct loopback
	packetBar  = 0.20 // × direct loopback
	connectBar = 2.5  // × direct
	dnsBar     = 0.5  // ms
	crowdRSS   = 150  // MB
	startBar   = 8.0  // ms more than without a network
)

// gigabyte is the volume that races of throughput are run over: race compares
// times, so a transfer counts as the time that so many bytes would take.
const gigabyte = 1e9

// toRate turns times for a gigabyte into Gbit/s.
func toRate(s series, spent []float64) rate {
	r := rate{
		Name: s.Name, Command: s.Command, Version: s.Version, NotMeasured: s.NotMeasured,
		Samples: s.Samples, Failures: s.Failures,
	}
	if s.measured() {
		gbit := func(ms float64) float64 { return round3(8 * gigabyte / 1e6 / ms) }
		r.P10, r.P50, r.Max = gbit(s.P90), gbit(s.P50), gbit(s.Min)
		if s.P50Ratio > 0 {
			r.Ratio = round3(1 / s.P50Ratio)
		}
		if slices.Sort(spent); len(spent) > 0 {
			r.CPU = round3(spent[len(spent)/2])
		}
	}
	return r
}

func (r *rate) measured() bool { return r != nil && r.NotMeasured == "" && r.Samples > 0 }

func (b *bulk) find(name string) *rate {
	for i := range b.Rates {
		if b.Rates[i].Name == name {
			return &b.Rates[i]
		}
	}
	return nil
}

func printRates(b bulk) {
	fmt.Printf("\n%s, Gbit/s\n", b.Name)
	fmt.Printf("%-22s %9s %9s %9s %11s   %s\n", "", "p10", "p50", "max", "CPU s/GB", "p50 ÷ "+nameDirect)
	for _, r := range b.Rates {
		if !r.measured() {
			fmt.Printf("%-22s not measured: %s\n", r.Name, r.NotMeasured)
			continue
		}
		failed := ""
		if r.Failures > 0 {
			failed = fmt.Sprintf("   (%d runs failed)", r.Failures)
		}
		fmt.Printf("%-22s %9.2f %9.2f %9.2f %11.2f   %.2f%s\n", r.Name, r.P10, r.P50, r.Max, r.CPU, r.Ratio, failed)
	}
}

// plots are one of throughput and one of times.
func (n *networkCost) plots(sub string) (throughput, latency plot) {
	throughput = plot{
		title: "Bulk TCP out of a sandbox", sub: sub, corner: "p10 / median / max, Gbit/s",
		axis: "Gbit/s, logarithmic: bar from 10th percentile to maximum, line at the median",
	}
	for _, b := range n.Bulk {
		g := group{title: b.Name, ours: nameNetRun}
		for _, r := range b.Rates {
			g.rows = append(g.rows, series{Name: r.Name, NotMeasured: r.NotMeasured, Samples: r.Samples, Min: r.P10, P50: r.P50, P90: r.Max})
		}
		throughput.groups = append(throughput.groups, g)
	}
	latency = plot{title: "The network of a sandbox", sub: sub}
	for _, g := range []group{
		{"connect and first byte", n.Connect, nameNetRun},
		{"the same by name", n.Named, nameNetRun},
		{"a DNS answer", n.DNS, nameAllowed},
		{"start, without a network and with one", n.Start, nameCoffer},
	} {
		if len(g.rows) > 0 {
			latency.groups = append(latency.groups, g)
		}
	}
	return throughput, latency
}

// judgeNetwork fills in the bars of the network.
func (r *result) judgeNetwork() {
	n := r.Network
	if n == nil {
		r.unmeasured("network", "all")
		return
	}
	for i := range n.Bulk {
		r.judgeBulk(&n.Bulk[i])
	}
	median := func(s *series) float64 { return s.P50 }
	for _, name := range []string{nameNetRun, nameNetExec} {
		r.ratioBar("connect + first byte, "+name, nameDirect, connectBar, find(n.Connect, name), find(n.Connect, nameDirect), median)
	}
	for _, name := range []string{nameAllowed, nameRefused} {
		wanted := fmt.Sprintf("≤ %g ms", dnsBar)
		if s := find(n.DNS, name); s.measured() {
			r.bar("DNS p50, "+name, wanted, fmt.Sprintf("%.3f ms", s.P50), s.P50 <= dnsBar)
		} else {
			r.unmeasured("DNS p50, "+name, wanted)
		}
	}
	for _, c := range n.Crowds {
		r.judgeConnections(c)
	}
	r.judgeDecisions(n.Decisions)
	wanted := fmt.Sprintf("≤ %g ms over none", startBar)
	with, without := find(n.Start, nameCoffer), find(n.Start, nameNetNone)
	if !with.measured() || !without.measured() {
		r.unmeasured("start with a network", wanted)
		return
	}
	least, typical := with.Min-without.Min, with.P50-without.P50
	r.bar("start with a network", wanted, fmt.Sprintf("min %+.2f ms, p50 %+.2f ms", least, typical), least <= startBar && typical <= startBar)
}

// judgeBulk: the bars are about one stream. With several, all cores are busy
// in every contender, and the rows are there to look at.
func (r *result) judgeBulk(b *bulk) {
	if b.Name != bulkUp && b.Name != bulkDown {
		return
	}
	share := func(name string, least float64) {
		wanted := fmt.Sprintf("≥ %.0f %% of direct", 100*least)
		got := b.find(name)
		if !got.measured() || !b.find(nameDirect).measured() {
			r.unmeasured(b.Name+", "+name, wanted)
			return
		}
		r.bar(b.Name+", "+name, wanted, fmt.Sprintf("%.0f %% (%.1f Gbit/s)", 100*got.Ratio, got.P50), got.Ratio >= least)
	}
	share(nameNetRun, kernelBar)
	share(nameNetExec, kernelBar)
	share(namePacket, packetBar)
	for _, peer := range []string{nameSlirp, namePasta} {
		got, other := b.find(nameNetRun), b.find(peer)
		if !got.measured() || !other.measured() {
			r.unmeasured(b.Name+", "+nameNetRun, "above "+peer)
			continue
		}
		r.bar(b.Name+", "+nameNetRun, "above "+peer, fmt.Sprintf("%.2f × (%.1f Gbit/s)", got.P50/other.P50, other.P50), got.P50 > other.P50)
	}
}

func (r *result) judgeConnections(c connections) {
	measure := fmt.Sprintf("%d connections, %s", c.Asked, c.Name)
	wanted := fmt.Sprintf("all, ≤ %d MB", crowdRSS)
	if c.NotMeasured != "" {
		r.unmeasured("many connections, "+c.Name, wanted)
		return
	}
	r.bar(measure, wanted, fmt.Sprintf("%d served, %.1f MB", c.Served, c.RSS), c.Served == c.Asked && c.RSS <= crowdRSS)
}
