package halt

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// role is set for a process that is to be watched.
const role = "COFFER_TEST_HALT"

func init() {
	if os.Getenv(role) == "headless" {
		runtime.LockOSThread() // the first thread, for main
	}
}

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "obedient":
	case "restless":
		wakeUp()
	case "headless": // its first thread is dead, by which a process is judged
		wakeUp()
		go work()
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	work()
}

// wakeUp arms timers that send SIGCONT. A signal that nobody handles would be sent once, and a
// timer whose signal is overtaken by SIGSTOP may fall silent: so there are many.
func wakeUp() {
	signal.Notify(make(chan os.Signal, 1), unix.SIGCONT)
	event := struct {
		value          uint64
		signal, notify int32
		_              [48]byte
	}{signal: int32(unix.SIGCONT)}
	for i := range 500 {
		var timer int32
		unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&timer)))
		soon := unix.NsecToTimespec(int64(i+10) * 1e6)
		spec := [2]unix.Timespec{soon, soon}
		unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	}
}

// line is as long as a page: a pipe holds 16 of them.
var line = strings.Repeat(".", os.Getpagesize()-1)

// work shows that it goes on.
func work() {
	for {
		fmt.Println(line)
		time.Sleep(time.Millisecond)
	}
}

func again(as string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), role+"="+as)
	return c
}

// played is a process that plays a role, and is stopped.
func played(t *testing.T, as string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	c := again(as)
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout = w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
		c.Wait()
		r.Close()
	})
	out := bufio.NewReaderSize(r, 16)
	hear(t, out)
	_ = unix.Kill(-c.Process.Pid, unix.SIGSTOP)
	return c, out
}

// hear reads what can only have been written since.
func hear(t *testing.T, out *bufio.Reader) {
	t.Helper()
	for range 40 {
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWatch: one that has itself go on is ended, and those who wait go on afterwards.
func TestWatch(t *testing.T) {
	for _, as := range []string{"restless", "headless"} {
		t.Run(as, func(t *testing.T) {
			quiet, lines := played(t, "obedient")
			c, out := played(t, as)
			hear(t, out) // nobody keeps it from that
			go io.Copy(io.Discard, out)
			var said []string
			w := Watch{
				Proc:  Here,
				All:   func() []int { return []int{quiet.Process.Pid, c.Process.Pid} },
				Ended: func(sentence string) { said = append(said, sentence) },
				Lost:  func() { t.Error("all are to be ended") },
			}
			stop := w.Begin()
			c.Wait()
			stop()
			if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGKILL {
				t.Errorf("it ended otherwise: %v", c.ProcessState)
			}
			if want := fmt.Sprintf("(process %d) was ended", c.Process.Pid); len(said) != 1 || !strings.Contains(said[0], want) {
				t.Errorf("%q was said", said)
			}
			if !Here.Stopped(quiet.Process.Pid) {
				t.Error("who waited does not any more")
			}
			_ = unix.Kill(quiet.Process.Pid, unix.SIGCONT)
			hear(t, lines)
		})
	}
}

// TestWatchForks: of many who are there for a moment each, none has done much, and nobody who waits
// has forked them.
func TestWatchForks(t *testing.T) {
	quiet, _ := played(t, "obedient")
	lost := make(chan struct{})
	w := Watch{
		Proc: Here,
		All: func() []int {
			c := exec.Command("sleep", "600")
			if err := c.Start(); err != nil {
				t.Error(err)
				return nil
			}
			t.Cleanup(func() {
				c.Process.Kill()
				c.Wait()
			})
			return []int{quiet.Process.Pid, c.Process.Pid}
		},
		Ended: func(sentence string) { t.Error(sentence) },
		Lost:  func() { close(lost) },
	}
	stop := w.Begin()
	defer stop()
	select {
	case <-lost:
	case <-time.After(time.Minute):
		t.Error("they may go on like that")
	}
}

// TestWatchCrowd: in a crowd of which all have gone on once, and for which a look is too short, all
// have their turn.
func TestWatchCrowd(t *testing.T) {
	const crowd, fit = 100, 10
	w := Watch{first: true}
	var all []int
	for pid := range crowd {
		all = append(all, pid)
	}
	seen := map[int]int{}
	for look := range 4 * crowd / fit {
		w.meet(all)
		if look == 0 {
			for pid := range crowd / 2 {
				w.known[pid].strikes = 1
			}
		}
		now := slices.Clone(all)
		w.order(now)
		for _, pid := range now[:fit] {
			seen[pid]++
			w.known[pid].looked = w.looks
		}
	}
	for pid := range crowd {
		if seen[pid] == 0 {
			t.Errorf("%d was never looked at", pid)
		}
	}
}

// TestWatchLoad: those who have much to do when they are stopped are not taken for others.
func TestWatchLoad(t *testing.T) {
	var all []int
	for range 8 {
		c := exec.Command("sh", "-c", "while :; do head -c 10000000 /dev/zero >/dev/null; done")
		c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer unix.Kill(-c.Process.Pid, unix.SIGKILL)
		all = append(all, c.Process.Pid)
	}
	for _, pid := range all {
		_ = unix.Kill(-pid, unix.SIGSTOP)
	}
	w := Watch{
		Proc: Here,
		All: func() []int {
			now := slices.Clone(all)
			for _, pid := range all {
				now = append(now, Here.children(pid)...)
			}
			return now
		},
		Ended: func(sentence string) { t.Error(sentence) },
		Lost:  func() { t.Error("all are to be ended") },
	}
	for range 30 {
		if !w.look() {
			w.Lost()
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("somebody went on in %d of %d looks", w.uneasy, w.looks)
}

// TestEffort: a kernel may count in another way.
func TestEffort(t *testing.T) {
	dir := t.TempDir() + "/"
	in := &Proc{at: unix.AT_FDCWD, path: dir}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(dir+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("stat", "1 (a ) b) R 0 1 1 0 -1 4194560 1 2 3 4 30 12 7 7")
	write("status", "Name:\tx\nSigPnd:\t0000000000040000\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n")
	for _, c := range []struct {
		schedstat string
		want      uint64
	}{{"", 49}, {"0 0 0\n", 49}, {"700 900 3\n", 703}} {
		if write("schedstat", c.schedstat); in.effort("") != c.want {
			t.Errorf("%q: %d, not %d", c.schedstat, in.effort(""), c.want)
		}
	}
	if s := in.look(""); s != (state{told: true}) {
		t.Errorf("%+v", s)
	}
	write("stat", "1 (x) T 0 1 1 0 -1 4194564 1 2 3 4 30 12 7 7")
	write("status", "Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000040000\n")
	if s := in.look(""); s != (state{stopped: true, over: true}) {
		t.Errorf("%+v", s)
	}
}

// TestSettled: of threads that rest no list is made, and yet one that another has made is seen.
func TestSettled(t *testing.T) {
	dir := t.TempDir() + "/"
	in := &Proc{at: unix.AT_FDCWD, path: dir}
	var told []int
	in.send = func(_, tid int, _ unix.Signal) error {
		told = append(told, tid)
		return nil
	}
	put := func(tid int, state, effort string) {
		t.Helper()
		at := dir + threadDir(7, tid)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"schedstat": effort + " 900 3\n", "stat": "1 (x) " + state + " 0 1 1 0 -1 4194560 1"} {
			if err := os.WriteFile(at+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := &process{threads: map[int]thread{}}
	look := func() bool { return p.look(in, 7, time.Now().Add(time.Minute)) }
	rest := func() {
		t.Helper()
		for range 3 {
			if look() {
				t.Fatal("who rests is said to have run")
			}
		}
		if !p.settled {
			t.Error("they are listed again and again")
		}
	}
	put(7, "T", "100")
	put(8, "T", "100")
	rest()
	put(7, "T", "101")
	put(9, "R", "1")
	if !look() || !slices.Equal(told, []int{9}) {
		t.Errorf("one that another made is not seen: %v were told to wait", told)
	}
	put(9, "T", "2")
	look()
	rest()
	if err := os.RemoveAll(dir + threadDir(7, 8)); err != nil {
		t.Fatal(err)
	}
	put(10, "R", "1")
	if !look() || !slices.Equal(told, []int{9, 10}) {
		t.Errorf("one that took the place of another is not seen: %v were told to wait", told)
	}
	if err := os.RemoveAll(dir + "7"); err != nil {
		t.Fatal(err)
	}
	look()
	put(7, "R", "1")
	if !look() || !slices.Equal(told, []int{9, 10, 7}) {
		t.Errorf("who has got the number of one that ended is not seen: %v were told to wait", told)
	}
}

// TestEndRunning: who is stopped stays, who is not is ended.
func TestEndRunning(t *testing.T) {
	quiet, _ := played(t, "obedient")
	busy, _ := played(t, "obedient")
	for _, c := range []*exec.Cmd{quiet, busy} {
		if err := c.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for !Here.Stopped(c.Process.Pid) {
			time.Sleep(time.Millisecond)
		}
	}
	busy.Process.Signal(unix.SIGCONT)
	for Here.Stopped(busy.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
	var told []string
	Here.EndRunning([]int{quiet.Process.Pid, busy.Process.Pid}, func(sentence string) { told = append(told, sentence) })
	if len(told) != 1 || !strings.Contains(told[0], fmt.Sprintf("(process %d)", busy.Process.Pid)) {
		t.Errorf("told %q", told)
	}
	if !Here.Stopped(quiet.Process.Pid) {
		t.Error("one that was stopped is not")
	}
	if err := busy.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("one that was not ended with %v", err)
	}
}
