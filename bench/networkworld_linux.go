package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The bench's own program is also what runs in the world and in the namespaces
// below it, by these words in the place of flags.
const (
	roleWorld   = "network-world"
	roleClient  = "network-client"
	rolePackets = "network-packets"
)

// playRole does what the bench has started itself again for. It says no when
// that is nothing.
func playRole(args []string) (played bool, err error) {
	if len(args) != 2 {
		return false, nil
	}
	switch args[1] {
	case roleWorld:
		return true, worldMain()
	case roleClient:
		return true, clientMain()
	case rolePackets:
		return true, packetsMain()
	}
	return false, nil
}

// worldSetup is what the bench tells the world.
type worldSetup struct {
	Coffer, Peers, Dir, Home, Runtime string
	Rounds, Warmup                    int
}

// worldResult is what it hears from there, on descriptor 3.
type worldResult struct {
	Cost  *networkCost
	Error string
}

// measureNetwork measures in a process of its own, which has a network and a mount
// namespace of its own.
func measureNetwork(ctx context.Context, l *lab, res *result) error {
	if _, err := os.Stat(l.coffer); err != nil {
		return errNoCoffer
	}
	setup, err := json.Marshal(worldSetup{l.coffer, l.peers, l.dir, l.home, l.runtime, l.rounds, l.warmup})
	if err != nil {
		return err
	}
	hear, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer hear.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", roleWorld)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(setup), os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{tell}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	if os.Getuid() != 0 {
		// An ordinary user stays who he is, and may do this in a user namespace.
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = allCapabilities()
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it has to clean up
	runtime.LockOSThread()                                                   // the child would get its signal when the thread ends
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	tell.Close()
	if err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	var got worldResult
	heard := json.NewDecoder(hear).Decode(&got)
	if err := errors.Join(cmd.Wait(), heard); err != nil {
		return err
	}
	res.Network = got.Cost
	if got.Error != "" {
		return errors.New(got.Error)
	}
	return nil
}

func allCapabilities() (all []uintptr) {
	for n := range uintptr(unix.CAP_LAST_CAP + 1) {
		all = append(all, n)
	}
	return all
}

// worldMain is the process in the world.
func worldMain() error {
	// All children are started by this thread: they would get their signal when it ends.
	runtime.LockOSThread()
	var setup worldSetup
	if err := json.NewDecoder(os.Stdin).Decode(&setup); err != nil {
		return err
	}
	if err := makeWorld(setup.Dir); err != nil {
		return fmt.Errorf("make a world: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l := &lab{
		options: options{coffer: setup.Coffer, peers: setup.Peers, rounds: setup.Rounds, warmup: setup.Warmup},
		dir:     setup.Dir, home: setup.Home, runtime: setup.Runtime,
	}
	got := worldResult{Cost: &networkCost{When: time.Now().UTC().Format(time.RFC3339), Rounds: l.rounds, Load: load()}}
	err := measureWorld(ctx, l, got.Cost)
	if err = errors.Join(err, l.remove()); err != nil {
		got.Error = err.Error()
	}
	return json.NewEncoder(os.NewFile(3, "result")).Encode(got)
}

// makeWorld sets the namespaces up and starts the servers. Files go to dir.
func makeWorld(dir string) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	// Everything that is sent from here on depends on it.
	if len(all) != 1 || all[0].Flags&net.FlagLoopback == 0 || all[0].Flags&net.FlagUp != 0 {
		return errors.New("this is not a new network namespace")
	}
	if err := makeInterfaces(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	names := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(names, []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(names, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover /etc/resolv.conf: %w", err)
	}
	if os.Getuid() != 0 {
		// What an ordinary user starts has the rights of one. This holds for what
		// this thread starts, which is all.
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return fmt.Errorf("give up rights: %w", err)
		}
	}
	return startServers()
}

// makeInterfaces brings loopback up, which the server's network is on, and an
// interface with a default route, as pasta wants to see it. It is a cable with both
// ends in the world.
func makeInterfaces() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "outside"}, PeerName: "nowhere"}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("make an interface: %w", err)
	}
	nowhere, err := netlink.LinkByName("nowhere")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(nowhere); err != nil {
		return err
	}
	a, err := netlink.ParseAddr("20.0.9.9/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(cable, a); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(cable); err != nil {
		return err
	}
	ours := &net.IPNet{IP: net.ParseIP(serverAddr).Mask(net.CIDRMask(24, 32)), Mask: net.CIDRMask(24, 32)}
	for _, r := range []*netlink.Route{
		{LinkIndex: lo.Attrs().Index, Dst: ours, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST},
		{LinkIndex: cable.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, Gw: net.IPv4(20, 0, 9, 1)},
	} {
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("add a route to %s: %w", r.Dst, err)
		}
	}
	return nil
}

const (
	bulkShare  = 5                      // bulk rounds are one in this many of the others
	bulkLasts  = 400 * time.Millisecond // and so long
	perRound   = 20                     // connections or queries in a round
	crowdCount = 2000
)

// measureWorld runs every measurement of the network.
func measureWorld(ctx context.Context, l *lab, cost *networkCost) error {
	stations, err := l.stations(ctx)
	defer func() {
		for _, s := range stations {
			s.close()
		}
	}()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *lab, []*station, *networkCost) error{
		measureConnect, measureDNS, measureBulk, measureConnections, measureNetStart,
	} {
		if err := step(ctx, l, stations, cost); err != nil {
			return err
		}
	}
	return measureDecisions(l, cost)
}

func measureBulk(ctx context.Context, l *lab, stations []*station, cost *networkCost) error {
	rounds := max(1, l.rounds/bulkShare)
	for _, kind := range []struct {
		name    string
		do      string
		streams int
	}{{bulkUp, "up", 1}, {bulkDown, "down", 1}, {bulkUp8, "up", 8}, {bulkDown8, "down", 8}} {
		var contenders []contender
		for _, s := range stations {
			s.spent = nil
			contenders = append(contenders, s.contender(task{Do: kind.do, To: s.server, Streams: kind.streams, Lasts: bulkLasts}))
		}
		all, err := race(ctx, l, nameDirect, min(l.warmup, rounds), rounds, contenders)
		if err != nil {
			return err
		}
		b := bulk{Name: kind.name}
		for i, s := range all {
			b.Rates = append(b.Rates, toRate(s, stations[i].spent))
		}
		cost.Bulk = append(cost.Bulk, b)
		printRates(b)
	}
	return nil
}

func measureConnect(ctx context.Context, l *lab, stations []*station, cost *networkCost) (err error) {
	var byAddress, byName []contender
	for _, s := range stations {
		byAddress = append(byAddress, s.contender(task{Do: "connect", To: s.server, Count: perRound}))
		if s.resolver != "" { // its client finds it in /etc/resolv.conf
			byName = append(byName, s.contender(task{Do: "connect", To: net.JoinHostPort(serverName, serverPort), Count: perRound}))
		}
	}
	if cost.Connect, err = race(ctx, l, nameDirect, l.warmup, l.rounds, byAddress); err != nil {
		return err
	}
	fmt.Println("\nconnect and first byte, ms")
	printSeries(cost.Connect, nameDirect)
	if cost.Named, err = race(ctx, l, nameDirect, l.warmup, l.rounds, byName); err != nil {
		return err
	}
	fmt.Println("\nthe same by name, looking it up included, ms")
	printSeries(cost.Named, nameDirect)
	return nil
}

func measureDNS(ctx context.Context, l *lab, stations []*station, cost *networkCost) (err error) {
	var contenders []contender
	for _, row := range []struct {
		station, name, ask string
		refused            bool
	}{
		{nameDirect, nameDirectDNS, serverName, false},
		{nameNetRun, nameAllowed, serverName, false},
		{nameNetRun, nameRefused, refusedName, true},
		{namePacket, nameAllowed2, serverName, false},
		{namePacket, nameRefused2, refusedName, true},
	} {
		for _, s := range stations {
			if s.name == row.station {
				address := net.JoinHostPort(s.resolver, "53")
				if s.resolver == "" {
					address = net.JoinHostPort(s.answers, "53")
				}
				c := s.contender(task{Do: "dns", To: address, Name: row.ask, Refused: row.refused, Count: perRound})
				c.name, c.command = row.name, "a query for "+row.ask
				contenders = append(contenders, c)
			}
		}
	}
	if cost.DNS, err = race(ctx, l, nameDirectDNS, l.warmup, l.rounds, contenders); err != nil {
		return err
	}
	fmt.Println("\na DNS answer, ms")
	printSeries(cost.DNS, nameDirectDNS)
	return nil
}

// measureConnections opens many connections by each of coffer's links.
func measureConnections(ctx context.Context, _ *lab, stations []*station, cost *networkCost) error {
	fmt.Println("\nconnections open at once")
	for _, s := range stations {
		if !s.ours {
			continue
		}
		c := connections{Name: s.name, NotMeasured: s.missing, Asked: crowdCount}
		if c.NotMeasured == "" {
			if err := s.crowd(ctx, &c); err != nil {
				c.NotMeasured = err.Error()
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cost.Crowds = append(cost.Crowds, c)
		if c.NotMeasured != "" {
			fmt.Printf("%-22s not measured: %s\n", c.Name, c.NotMeasured)
			continue
		}
		fmt.Printf("%-22s %d of %d served, RSS %.1f MB (%.1f before)\n", c.Name, c.Served, c.Asked, c.RSS, c.Before)
	}
	return nil
}

// measureNetStart times `true` in sandboxes with and without a network.
func measureNetStart(ctx context.Context, l *lab, _ []*station, cost *networkCost) (err error) {
	dir := filepath.Join(l.dir, "small")
	cost.Start, err = race(ctx, l, nameNetNone, l.warmup, l.rounds, []contender{
		{name: nameNetNone, command: "coffer run --net none -- true", sample: l.process(dir, l.coffer, "run", "--net", "none", "--", "true")},
		{name: nameCoffer, command: "coffer run -- true", sample: l.process(dir, l.coffer, "run", "--", "true")},
	})
	if err != nil {
		return err
	}
	fmt.Println("\nstart with and without a network, ms")
	printSeries(cost.Start, nameNetNone)
	return nil
}
