package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/sys/unix"
)

// A station is a place that a client sends from.
type station struct {
	name, command, version string
	missing                string // why it could not be made
	server                 string // what the server is called there
	resolver               string // who answers DNS there, if programs know it
	answers                string // the same, if they do not
	// carrier is the process that carries its bytes; nil if there is none.
	carrier func() (pid int)
	ours    bool
	spent   []float64 // processor seconds for a gigabyte, by the task of now

	slow   bool     // it comes into a namespace from outside
	said   *os.File // what its programs said on stderr
	client *exec.Cmd
	ended  chan struct{} // closed when the client has
	in     io.WriteCloser
	out    *json.Decoder
	other  *exec.Cmd // goes with it
}

// stations makes one for each contender.
func (l *lab) stations(ctx context.Context) (all []*station, err error) {
	for _, d := range []string{"net", "net2"} {
		if err := os.Mkdir(filepath.Join(l.dir, d), 0o700); err != nil {
			return nil, err
		}
		if err := copyProgram(filepath.Join(l.dir, d, "client")); err != nil {
			return nil, err
		}
	}
	for _, make := range []func(context.Context, *station) error{
		l.directStation, l.runStation, l.execStation, l.packetStation, l.slirpStation, l.pastaStation,
	} {
		s := &station{server: net.JoinHostPort(serverAddr, serverPort)}
		if s.said, err = os.CreateTemp(l.dir, "station-"); err != nil {
			return all, err
		}
		defer s.said.Close()
		err := make(ctx, s)
		if err == nil {
			// It works when the server answers. Who comes into a namespace
			// from outside takes a moment.
			err = s.arrive(ctx)
		}
		if err != nil {
			s.close()
			s.missing = l.neutral(explain(ctx, err, s.said).Error())
		}
		all = append(all, s)
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
	}
	return all, nil
}

// copyProgram puts this program where a sandbox can see it.
func copyProgram(to string) error {
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// start starts a station's client, by a command that becomes it in the end.
func (s *station) start(cmd *exec.Cmd) (err error) {
	if s.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.out, cmd.Stderr = json.NewDecoder(out), s.said
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A group of its own: pasta may leave a process behind.
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = syscall.SIGTERM, true
	if err := cmd.Start(); err != nil {
		return err
	}
	s.client, s.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // it closes the pipes, so nobody waits for an answer for ever
		close(s.ended)
	}()
	return nil
}

// beside starts a program that the station needs.
func (s *station) beside(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = s.said, s.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.AmbientCaps = allCapabilities()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.other = cmd
	return nil
}

// kill ends the client and all that belongs to it at once.
func (s *station) kill() { _ = syscall.Kill(-s.client.Process.Pid, syscall.SIGKILL) }

// itself is the carrier of a station whose client was started by it.
func (s *station) itself() int { return s.client.Process.Pid }

// close ends the client and what goes with it.
func (s *station) close() {
	if s.client != nil {
		s.in.Close() // the client ends by itself
		hung := time.AfterFunc(10*time.Second, s.kill)
		<-s.ended
		hung.Stop()
		s.kill()
		s.client = nil
	}
	if s.other != nil {
		_ = s.other.Process.Signal(syscall.SIGTERM)
		hung := time.AfterFunc(5*time.Second, func() { _ = s.other.Process.Kill() })
		_ = s.other.Wait()
		hung.Stop()
		s.other = nil
	}
}

// ask gives the client a task.
func (s *station) ask(ctx context.Context, t task) (r report, err error) {
	if s.client == nil {
		return r, errors.New("the client is gone")
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, s.kill)
	defer stop()
	if err := json.NewEncoder(s.in).Encode(t); err != nil {
		return r, err
	}
	if err := s.out.Decode(&r); err != nil {
		return r, fmt.Errorf("hear from the client: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, ctx.Err()
}

// answer waits for the client to be there.
func (s *station) answer(ctx context.Context) error {
	_, err := s.ask(ctx, task{Do: "release"})
	return err
}

// arrive waits until the server can be reached.
func (s *station) arrive(ctx context.Context) (err error) {
	for range 50 {
		if _, err = s.ask(ctx, task{Do: "connect", To: s.server, Count: 1}); err == nil || !s.slow {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the server cannot be reached: %w", err)
}

// contender lets a station take part in a race.
func (s *station) contender(t task) contender {
	return contender{
		name: s.name, command: s.command, version: s.version, missing: s.missing,
		sample: func(ctx context.Context) ([]time.Duration, error) {
			before := s.used()
			r, err := s.ask(ctx, t)
			if r.Bytes > 0 {
				used := s.used() - before + r.CPU
				s.spent = append(s.spent, used.Seconds()*gigabyte/float64(r.Bytes))
			}
			return r.Times, err
		},
	}
}

// used is the processor time of the server, which is in this process, and of the carrier.
func (s *station) used() time.Duration {
	sum := processorTime()
	if s.carrier == nil {
		return sum
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.carrier()))
	for _, t := range threads {
		var ns int64
		if text, err := os.ReadFile(t); err == nil { // it may have ended
			fmt.Sscan(string(text), &ns)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// crowd opens many connections and weighs the process that carries them.
func (s *station) crowd(ctx context.Context, c *connections) error {
	pid := s.carrier()
	before, err := readProcess(pid)
	if err != nil {
		return err
	}
	if _, err := s.ask(ctx, task{Do: "hold", To: s.server, Count: c.Asked}); err != nil {
		return err
	}
	again, err := s.ask(ctx, task{Do: "again"})
	if err != nil {
		return err
	}
	after, err := readProcess(pid)
	if err != nil {
		return err
	}
	c.Served, c.RSS, c.Before = again.Served, round3(after.rss), round3(before.rss)
	_, err = s.ask(ctx, task{Do: "release"})
	return err
}

func (l *lab) directStation(ctx context.Context, s *station) error {
	s.name, s.command, s.resolver = nameDirect, "loopback", "127.0.0.1"
	return s.start(l.command(ctx, l.dir, "/proc/self/exe", roleClient))
}

// runStation is a sandbox in the foreground: coffer run carries its network.
func (l *lab) runStation(ctx context.Context, s *station) error {
	s.name, s.command, s.resolver = nameNetRun, "coffer run -- CLIENT", link.Resolver4.String()
	s.version = l.version(ctx, l.coffer, "--version")
	s.carrier, s.ours = s.itself, true
	dir := filepath.Join(l.dir, "net")
	if err := s.start(l.command(ctx, dir, l.coffer, "run", "--name", "bench-net", "--", "./client", roleClient)); err != nil {
		return err
	}
	return l.allowServer(ctx, s, "bench-net")
}

// execStation is a sandbox in the background, with a supervisor of its own.
func (l *lab) execStation(ctx context.Context, s *station) error {
	s.name, s.command, s.resolver = nameNetExec, "coffer exec -- CLIENT", link.Resolver4.String()
	s.version = l.version(ctx, l.coffer, "--version")
	dir := filepath.Join(l.dir, "net2")
	if _, err := l.create(ctx, dir, "bench-net2"); err != nil {
		return err
	}
	pids, err := l.pids(ctx)
	if err != nil {
		return err
	}
	s.carrier, s.ours = func() int { return pids["bench-net2"] }, true
	if err := s.start(l.command(ctx, dir, l.coffer, "exec", "-m", "bench-net2", "--", "./client", roleClient)); err != nil {
		return err
	}
	return l.allowServer(ctx, s, "bench-net2")
}

// allowServer adds a rule for the server to a sandbox, once its client runs.
func (l *lab) allowServer(ctx context.Context, s *station, sandbox string) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	_, err := l.output(ctx, l.dir, l.coffer, "policy", "allow", "--sandbox", sandbox, serverAddr+"/32:"+serverPort, serverName)
	return err
}

// openTun says why the peers cannot work, who take packets from a TAP. Most distributions
// let everybody open the device; coffer needs none.
func openTun() error {
	const device = "/dev/net/tun"
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("it needs %s, which this user may not open here", device)
	}
	return f.Close()
}

func (l *lab) slirpStation(ctx context.Context, s *station) error {
	s.name, s.command = nameSlirp, "slirp4netns --configure --mtu=65520 --disable-host-loopback PID tap0"
	if _, err := exec.LookPath(nameSlirp); err != nil {
		return errors.New("not installed")
	}
	if err := openTun(); err != nil {
		return err
	}
	s.version = l.version(ctx, nameSlirp, "--version")
	cmd := l.command(ctx, l.dir, "/proc/self/exe", roleClient)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := s.start(cmd); err != nil {
		return err
	}
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.slow, s.carrier = true, func() int { return s.other.Process.Pid }
	return s.beside(l.command(ctx, l.dir, nameSlirp, "--configure", "--mtu=65520", "--disable-host-loopback",
		fmt.Sprint(s.client.Process.Pid), "tap0"))
}

// pastaStation: pasta makes its namespace itself, and becomes nobody before it does
// so unless it is told who to be. Its tap has the largest MTU by itself.
func (l *lab) pastaStation(ctx context.Context, s *station) error {
	s.name, s.command = namePasta, "pasta --config-net -- CLIENT"
	if _, err := exec.LookPath(namePasta); err != nil {
		return errors.New("not installed")
	}
	if err := openTun(); err != nil {
		return err
	}
	s.version = l.version(ctx, namePasta, "--version")
	s.slow, s.carrier = true, s.itself
	argv := []string{namePasta, "--config-net", "--foreground", "--quiet", "--ipv4-only", "-t", "none", "-u", "none", "-T", "none", "-U", "none"}
	if os.Getuid() == 0 {
		argv = append(argv, "--runas", "0")
	}
	return s.start(l.command(ctx, l.dir, append(argv, "--", filepath.Join(l.dir, "net", "client"), roleClient)...))
}
