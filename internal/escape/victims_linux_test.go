package escape

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// A victim is a process of the user's that is to be left alone.
type victim struct {
	pid  int
	addr string // of its canary, in hexadecimal
	in   io.Writer
	out  *bufio.Reader
}

func (w *world) process(id string) *victim {
	if v := w.procs[id]; v != nil {
		return v
	}
	c := w.bed.Program(program(w.t), "victim")
	in, err := c.StdinPipe()
	must(w.t, err)
	out, err := c.StdoutPipe()
	must(w.t, err)
	must(w.t, c.Start())
	w.t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	v := &victim{pid: c.Process.Pid, in: in, out: bufio.NewReader(out)}
	line, err := v.out.ReadString('\n')
	must(w.t, err)
	v.addr = strings.TrimSpace(line)
	w.procs[id] = v
	return v
}

// state says how a victim is: dead, or what it says of itself.
func (v *victim) state() string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.pid))
	_, rest, ok := strings.Cut(string(stat), ") ")
	if err != nil || !ok || strings.ContainsAny(rest[:1], "ZXTt") {
		return "dead"
	}
	if _, err := fmt.Fprintln(v.in); err != nil {
		return "dead"
	}
	line, err := v.out.ReadString('\n')
	if err != nil {
		return "dead"
	}
	return line
}

// A hub listens on every kind of socket, and remembers the words it was told.
type hub struct {
	t     testing.TB
	addr  map[string]string // placeholder to address
	close []io.Closer

	mu    sync.Mutex
	words map[string]bool
}

func newHub(w *world) *hub {
	h := &hub{t: w.t, addr: map[string]string{}, words: map[string]bool{}}
	w.t.Cleanup(func() {
		for _, c := range h.close {
			c.Close()
		}
	})
	tag := fmt.Sprintf("coffer-escape-%d-%d-%t", os.Getpid(), w.bed.UID, w.control)
	h.stream("tcp", "tcp4", "127.0.0.1:0")
	h.stream("tcp6", "tcp6", "[::1]:0")
	h.stream("sock", "unix", filepath.Join(w.outside, "s"))
	h.stream("homesock", "unix", filepath.Join(w.home, ".agent.sock"))
	h.stream("rosock", "unix", filepath.Join(w.home, ".local/lib/s"))
	h.stream("abstract", "unix", "@"+tag)
	h.packet("udp", "udp4", "127.0.0.1:0")
	h.packet("udp6", "udp6", "[::1]:0")
	h.packet("dgram", "unixgram", filepath.Join(w.outside, "d"))
	run := w.outside // a socket of a daemon; only root can put one where they are
	if os.Getuid() == 0 {
		run = "/run"
	}
	h.stream("runsock", "unix", filepath.Join(run, tag))
	shm := filepath.Join("/dev/shm", tag)
	must(w.t, os.WriteFile(shm, []byte("untouched\n"), 0o666))
	must(w.t, os.Chmod(shm, 0o666))
	h.addr["posixshm"] = shm
	h.close = append(h.close, closer(func() error { return os.Remove(shm) }))
	h.segment(w)
	return h
}

type closer func() error

func (c closer) Close() error { return c() }

// segment makes a System V shared memory segment for the user.
func (h *hub) segment(w *world) {
	key := 0x0c000000 + os.Getpid()&0xfffff<<2
	if w.control {
		key++
	}
	if w.bed.UID != os.Getuid() {
		key += 2
	}
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666)
	must(w.t, err)
	h.addr["sysvshm"] = fmt.Sprint(key)
	h.close = append(h.close, closer(func() error { _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); return err }))
}

func (h *hub) address(name string) string {
	a, ok := h.addr[name]
	if !ok {
		h.t.Fatalf("no placeholder {%s}", name)
	}
	return a
}

func (h *hub) stream(name, network, address string) {
	l, err := net.Listen(network, address)
	must(h.t, err)
	h.opened(name, l, l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetReadDeadline(time.Now().Add(5 * time.Second))
			line, _ := bufio.NewReader(c).ReadString('\n')
			c.Close()
			h.hear(line)
		}
	}()
}

func (h *hub) packet(name, network, address string) {
	l, err := net.ListenPacket(network, address)
	must(h.t, err)
	h.opened(name, l, l.LocalAddr())
	go func() {
		buf := make([]byte, 256)
		for {
			n, _, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			h.hear(string(buf[:n]))
		}
	}()
}

func (h *hub) opened(name string, c io.Closer, a net.Addr) {
	h.close = append(h.close, c)
	h.addr[name] = a.String()
	if path := a.String(); strings.HasPrefix(path, "/") {
		must(h.t, os.Chmod(path, 0o777))
	}
}

func (h *hub) hear(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.words[strings.TrimSpace(line)] = true
}

func (h *hub) heard(word string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.words[word]
}

// flush says a word on every socket and waits until it was heard: what was said
// before has been heard by then, too.
func (h *hub) flush() {
	for name, a := range h.addr {
		network := "unix"
		switch {
		case strings.HasSuffix(name, "shm"):
			continue
		case strings.HasPrefix(name, "tcp"), strings.HasPrefix(name, "udp"):
			network = name
		case name == "dgram":
			network = "unixgram"
		}
		word := fmt.Sprint("flush ", name, time.Now().UnixNano())
		c, err := net.Dial(network, a)
		must(h.t, err)
		fmt.Fprintln(c, word)
		c.Close()
		poll(h.t, "the hub hears", func() bool { return h.heard(word) })
	}
}

// poll waits until something is so.
func poll(t testing.TB, what string, so func() bool) bool {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if so() {
			return true
		}
	}
	t.Errorf("waited in vain until %s", what)
	return false
}

// marked finds the processes of the host that have a word among their arguments.
func marked(word string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil {
			continue
		}
		cmd, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil {
			continue
		}
		for arg := range strings.SplitSeq(string(cmd), "\x00") {
			if arg == word {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

var building sync.Mutex

// program is the probe, built once, beside coffer: it goes away with it.
func program(t testing.TB) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(filepath.Dir(testbed.Binary(t)), "probe")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	c := exec.Command("go", "build", "-o", path, "./probe")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build the probe: %v\n%s", err, out)
	}
	return path
}
