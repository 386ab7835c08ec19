package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
	"golang.org/x/sys/unix"
)

// packetStation is a namespace with coffer's other link, for which there is no
// command: engines take it where the kernel's own will not do.
func (l *lab) packetStation(ctx context.Context, s *station) error {
	s.name, s.command, s.answers = namePacket, "packet link and gateway", link.Resolver4.String()
	cmd := l.command(ctx, l.dir, "/proc/self/exe", rolePackets)
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: allCapabilities()}
	}
	s.carrier, s.ours = s.itself, true
	return s.start(cmd)
}

// packetsMain carries a client's network over the packet link, with the rules that the
// sandboxes have.
func packetsMain() error {
	wire, client, err := packetClient()
	if err != nil {
		return err
	}
	rules, err := policy.Builtin("standard")
	if err != nil {
		return err
	}
	set, err := policy.Compile(rules, policy.Source{
		Grants: true, Rules: []policy.RuleSource{{Allow: []string{serverAddr + "/32:" + serverPort, serverName}}},
	})
	if err != nil {
		return err
	}
	g := gateway.New(wire, gateway.Config{Policy: set})
	runtime.GOMAXPROCS(1) // as in every supervisor that carries a network
	served := make(chan error, 1)
	go func() { served <- g.Serve() }()
	err = client.Wait()
	return errors.Join(err, g.Close(), <-served)
}

// packetClient starts a client in a new namespace with a packet link.
func packetClient() (link.Link, *exec.Cmd, error) {
	type made struct {
		socket *os.File
		client *exec.Cmd
		err    error
	}
	done := make(chan made)
	go func() {
		// The thread is in the namespace for good: it ends with the goroutine, but
		// only after the client, which would get its signal then.
		runtime.LockOSThread()
		m := made{err: unix.Unshare(unix.CLONE_NEWNET)}
		if m.err == nil {
			m.socket, m.err = link.PreparePackets()
		}
		if m.err == nil {
			m.client = exec.Command("/proc/self/exe", roleClient)
			m.client.Stdin, m.client.Stdout, m.client.Stderr = os.Stdin, os.Stdout, os.Stderr
			m.client.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
			m.err = m.client.Start()
		}
		done <- m
		if m.err == nil {
			select {}
		}
	}()
	m := <-done
	if m.err != nil {
		return nil, nil, m.err
	}
	wire, err := link.OpenPackets(m.socket)
	return wire, m.client, err
}
