package guest

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/cofferhq/coffer/internal/wire"
)

const table4 = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0000000000000000 20 4 30 10 -1
`

const table6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4714 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4715 1 0000000000000000 100 0 0 10 0
`

func TestReadTable(t *testing.T) {
	at := func(text string, inode uint64) listener {
		a := netip.MustParseAddrPort(text)
		return listener{addr: a.Addr(), port: a.Port(), inode: inode}
	}
	want := []listener{at("127.0.0.1:8080", 4711), at("0.0.0.0:22", 4712), at("[::1]:3000", 4714), at("127.0.0.1:80", 4715)}
	got := append(readTable(strings.NewReader(table4)), readTable(strings.NewReader(table6))...)
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	for _, bad := range []string{
		"0: 0100007F:1F90", "0: 0100007F 0 0A 0 0 0 0 0 1 1", "0: 01:1 0 0A 0 0 0 0 0 1 1",
		"0: 0100007F:0 0 0A 0 0 0 0 0 1 1", "0: 0100007F:1F90 0 0A 0 0 0 0 0 x x", "",
	} {
		if got := readTable(strings.NewReader(bad)); len(got) != 0 {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add(table4)
	f.Add(table6)
	f.Fuzz(func(t *testing.T, in string) {
		for _, l := range readTable(strings.NewReader(in)) {
			if !l.addr.IsValid() || l.port == 0 {
				t.Errorf("%+v", l)
			}
		}
	})
}

// What listens is found, by port, once, with the program; what was excepted is not.
func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	ask := func(q wire.Survey) *wire.Port {
		a, b := net.Pipe()
		go new(agent).ports(b, q)
		e, err := wire.Answer(a)
		if err != nil || e.Ports == nil {
			t.Fatalf("got %+v, %v", e, err)
		}
		a.Close()
		for _, p := range e.Ports.Listening {
			if p.Port == port {
				return &p
			}
		}
		return nil
	}
	self, _ := os.ReadFile("/proc/self/comm")
	want := wire.Port{Port: port, Address: "127.0.0.1", Program: strings.TrimSpace(string(self))}
	if got := ask(wire.Survey{}); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := ask(wire.Survey{Except: []uint16{port}}); got != nil {
		t.Errorf("%+v was told although it was excepted", got)
	}
}

// dialled has an agent dial, and returns the other end of its stream.
func dialled(t *testing.T, target wire.Target) (net.Conn, error) {
	t.Helper()
	ours, theirs := sessions(t)
	a := &agent{session: theirs}
	go func() {
		if s, err := theirs.Accept(); err == nil {
			a.handle(s)
		}
	}()
	return wire.DialTarget(ours, target, patience)
}

func sessions(t *testing.T) (host, guest *wire.Session) {
	t.Helper()
	a, b := net.Pipe()
	host, err := wire.NewClient(a)
	if err != nil {
		t.Fatal(err)
	}
	if guest, err = wire.NewServer(b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); guest.Close() })
	return host, guest
}

func TestDial(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, at := range [][2]string{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}, {"unix", path}} {
		t.Run(at[0], func(t *testing.T) {
			l := testbed.Listen(t, at[0], at[1])
			target := wire.Target{Path: path}
			if a, ok := l.Addr().(*net.TCPAddr); ok {
				target = wire.Target{Port: uint16(a.Port)}
			}
			met := make(chan net.Conn, 1)
			go func() {
				c, err := l.Accept()
				if err == nil {
					met <- c
				}
			}()
			s, err := dialled(t, target)
			if err != nil {
				t.Fatal(err)
			}
			(<-met).Close()
			s.Close()
			l.Close()
			if _, err := dialled(t, target); err == nil || !strings.Contains(err.Error(), "nobody listens ") {
				t.Errorf("nobody listens, and we got %v", err)
			}
		})
	}
	for _, path := range []string{"@abstract", "relative"} {
		if _, err := dialled(t, wire.Target{Path: path}); err == nil || !strings.Contains(err.Error(), "not an absolute path") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// From inside nothing can be asked for but programs.
func TestInsideMayNot(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path := filepath.Join(t.TempDir(), "s")
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	for _, r := range []wire.Request{
		{Op: wire.OpDial, Dial: &wire.Target{Port: port}},
		{Op: wire.OpDial, Dial: &wire.Target{Path: Socket}},
		{Op: wire.OpListen, Listen: &wire.Target{Path: path}},
		{Op: wire.OpPorts, Ports: &wire.Survey{}},
		{Op: wire.OpStop, Stop: &wire.Stop{}},
		{Op: wire.OpForward, Forward: &wire.Forwarding{ClearAll: true}},
		{Op: wire.OpStatus},
	} {
		a, b := net.Pipe()
		go new(agent).handleInside(b)
		if err := wire.WriteMessage(a, r); err != nil {
			t.Fatal(err)
		}
		if e, err := wire.Answer(a); err == nil {
			t.Errorf("%s was answered: %+v", r.Op, e)
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("a socket was made")
	}
}

// An offered socket leads to the host, which is told its path.
func TestOffer(t *testing.T) {
	host, guest := sessions(t)
	a := &agent{session: guest, offered: make(chan struct{}, maxOffered), boot: Boot{UID: os.Getuid(), GID: os.Getgid()}}
	go func() {
		for {
			s, err := guest.Accept()
			if err != nil {
				return
			}
			go a.handle(s)
		}
	}()
	dir := t.TempDir()
	listen := func(path string) error {
		s, err := host.Open()
		if err != nil {
			return err
		}
		defer s.Close()
		if err := wire.WriteMessage(s, wire.Request{Op: wire.OpListen, Listen: &wire.Target{Path: path}}); err != nil {
			return err
		}
		_, err = wire.Answer(s)
		return err
	}
	path := filepath.Join(dir, "new", "dir", "s")
	for range 2 { // the second finds the socket of the first
		if err := listen(path); err != nil {
			t.Fatal(err)
		}
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := host.Accept()
	if err != nil {
		t.Fatal(err)
	}
	r, err := first(s)
	if err != nil || r.Op != wire.OpDial || r.Dial == nil || r.Dial.Path != path {
		t.Fatalf("got %+v, %v", r, err)
	}
	if err := wire.WriteMessage(s, wire.Event{Failure: &wire.Failure{Message: "no"}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came from a refused connection", n)
	}

	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{precious, "relative", filepath.Join(precious, "below")} {
		if err := listen(bad); err == nil {
			t.Errorf("%s was made a socket", bad)
		}
	}
	if b, err := os.ReadFile(precious); err != nil || string(b) != "kept" {
		t.Errorf("the file has %q, %v", b, err)
	}
}
