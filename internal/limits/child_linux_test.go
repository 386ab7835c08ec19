package limits

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is also the program in the sandbox: childEnv says which.
const childEnv = "COFFER_LIMITS_CHILD"

// Exit statuses of the fork child.
const (
	exitLimited = 42 // fork said EAGAIN
	exitFree    = 43 // it never did
)

func TestMain(m *testing.M) {
	role, args, _ := strings.Cut(os.Getenv(childEnv), " ")
	if role == "" {
		os.Exit(m.Run())
	}
	if role == "owner" {
		ownerChild(args)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // until we are under the limits
	switch role {
	case "alloc":
		allocChild(args)
	case "fork":
		forkChild(args)
	case "burn":
		burnChild()
	case "room":
		roomChild(args)
	case "wait":
	}
	os.Exit(0)
}

// allocChild uses as many bytes as it is told.
func allocChild(bytes string) {
	n, _ := strconv.Atoi(bytes)
	block := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		block[i] = 1
	}
	runtime.KeepAlive(block)
}

// forkChild sets RLIMIT_NPROC if told to and forks 100 times. It goes past the
// Go runtime, which would end the program if it cannot have another thread.
func forkChild(nproc string) {
	if n, err := strconv.ParseUint(nproc, 10, 64); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	runtime.LockOSThread()
	status := uintptr(exitFree)
	for range 100 {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == unix.EAGAIN {
			status = exitLimited
			break
		}
		for pid == 0 && errno == 0 { // the child: wait to be killed
			unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	unix.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
}

// burnChild uses 40 ms of processor time.
func burnChild() {
	var u unix.Rusage
	for u.Utime.Nano()+u.Stime.Nano() < int64(40*time.Millisecond) {
		_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	}
}

// ownerChild is a coffer: it has a sandbox called name, and waits to be killed.
func ownerChild(name string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	g, err := Prepare(name, Limits{Memory: 64 << 20, Pids: 50})
	fail(err)
	box := exec.Command("/proc/self/exe")
	box.Env = append(os.Environ(), childEnv+"=wait")
	box.Stdin = os.NewFile(3, "stdin")  // the test's pipe: outlives us
	box.Stdout = os.NewFile(4, "alive") // the test sees its end
	fail(box.Start())
	fail(g.Add(box.Process.Pid))
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	runtime.KeepAlive(g)
}

// roomChild makes room in its own v2 group, on the real kernel.
func roomChild(controller string) {
	s := thisHost()
	t, err := s.tree()
	if err == nil {
		err = s.makeRoom(baseOf(t.unified), []string{controller})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// child is a started test program, waiting for begin.
type child struct {
	*exec.Cmd
	t     *testing.T
	stdin io.WriteCloser
}

// startChild starts a program; prepare may change the command before.
func startChild(t *testing.T, role string, prepare ...func(*exec.Cmd)) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+role, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	for _, change := range prepare {
		change(cmd)
	}
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{Cmd: cmd, t: t, stdin: stdin}
}

// run lets the program go on and waits for its end.
func (c *child) run() unix.WaitStatus {
	c.t.Helper()
	must(c.t, c.stdin.Close())
	_ = c.Wait()
	return unix.WaitStatus(c.ProcessState.Sys().(syscall.WaitStatus))
}

func readLine(r io.Reader) string {
	line, _ := bufio.NewReader(r).ReadString('\n')
	return strings.TrimSpace(line)
}
