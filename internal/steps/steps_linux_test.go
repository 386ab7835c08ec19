package steps

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// atCWD says that a path is one from the current directory, as a call has it.
const atCWD = ^uintptr(99)

// open adds a call that opens a file, and makes it.
func open(l *List, path string) *Call {
	return l.Call("open "+filepath.Base(path), syscall.SYS_OPENAT, atCWD, l.Text(path), syscall.O_WRONLY|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600)
}

// become adds the last call: a shell that runs a script.
func become(l *List, script string) {
	l.Act("hear signals", Hear)
	l.Call("become the program", syscall.SYS_EXECVE, l.Text("/bin/sh"), l.Texts([]string{"sh", "-c", script}), l.Texts([]string{"A=b"}))
}

// playList runs a list, and waits for the program that it becomes.
func playList(t *testing.T, l *List) (code int, err error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := l.Run()
	if err != nil {
		return 0, err
	}
	return wait(t, pid), nil
}

func wait(t *testing.T, pid int) int {
	t.Helper()
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err == nil {
			return status.ExitStatus()
		} else if err != syscall.EINTR {
			t.Fatalf("wait for %d: %v", pid, err)
		}
	}
}

// Calls are made in order, results go from one to the next, and the last one is the program.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	l := &List{}
	var point int32
	c := open(l, file)
	c.Point = &point
	fd := l.Result(c)
	text := []byte("written\n")
	l.Call("write", syscall.SYS_WRITE, 0, l.Bytes(text), uintptr(len(text))).With(0, fd)
	l.Call("close", syscall.SYS_CLOSE).With(0, fd)
	become(l, `test "$A" = b && exit 7`)
	if code, err := playList(t, l); code != 7 || err != nil {
		t.Fatal(code, err)
	}
	if got, _ := os.ReadFile(file); string(got) != "written\n" {
		t.Errorf("%q", got)
	}
	if Shared && point < 3 {
		t.Errorf("the descriptor was %d", point)
	}
}

// An error ends it, and is told with what was being done; one that is forgiven leaves calls out.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none", "file")
	l := &List{}
	open(l, missing)
	become(l, "exit 0")
	_, err := playList(t, l)
	var at *Error
	if !errors.As(err, &at) || at.What != "open file" || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("%v", err)
	}
	if Shared && !errors.Is(l.Err(), syscall.ENOENT) {
		t.Errorf("%v", l.Err())
	}

	l = &List{}
	open(l, missing).Forgive(1, syscall.EACCES, syscall.ENOENT)
	open(l, filepath.Join(dir, "left out"))
	open(l, missing).Anyway = true
	open(l, filepath.Join(dir, "made")).Forgive(1, syscall.ENOENT)
	open(l, filepath.Join(dir, "made too"))
	become(l, "exit 3")
	if code, err := playList(t, l); code != 3 || err != nil {
		t.Error(code, err)
	}
	found, _ := filepath.Glob(dir + "/*")
	if got := strings.Join(found, " "); got != dir+"/made "+dir+"/made too" {
		t.Errorf("there are %s", got)
	}

	l = &List{}
	open(l, missing).Forgive(0, syscall.EACCES)
	become(l, "exit 0")
	if _, err := playList(t, l); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("another error was forgiven: %v", err)
	}
}

// A slot that is free again can be used for another descriptor, and the first one is closed.
func TestFree(t *testing.T) {
	l := &List{}
	dir := t.TempDir()
	for i := range 2 * maxSlots {
		l.Free(l.Result(open(l, filepath.Join(dir, strconv.Itoa(i%10)))))
	}
	kept := l.Result(open(l, filepath.Join(dir, "kept")))
	l.Call("write", syscall.SYS_WRITE, 0, l.Text("text"), 4).With(0, kept)
	become(l, "exit 3")
	if code, err := playList(t, l); code != 3 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "kept")); string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// A list ends with a program, or by saying that it is ready.
func TestEnds(t *testing.T) {
	l := &List{}
	l.Act("explain", Ready)
	if _, err := playList(t, l); !errors.Is(err, ErrReady) {
		t.Errorf("ready: %v", err)
	}
	l = &List{}
	l.Call("do nothing", syscall.SYS_GETPID)
	if _, err := playList(t, l); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "do nothing") {
		t.Errorf("no program: %v", err)
	}
	if _, err := playList(t, &List{}); err == nil {
		t.Error("nothing was run")
	}
	l = &List{}
	for range maxSlots + 1 {
		l.Slot()
	}
	become(l, "exit 0")
	if _, err := playList(t, l); err == nil {
		t.Error("there are too many slots")
	}
}

// A twin is a child of ours, as the first one was; a list can be put before another.
func TestTwin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	l, first := &List{}, &List{}
	open(first, file)
	l.Act("go on beside", Twin)
	become(l, "exit 9")
	l.Before(first)
	if l.Len() != 4 || strings.Join(l.What(2), ",") != "open file,go on beside" {
		t.Errorf("%d: %v", l.Len(), l.What(l.Len()))
	}
	if code, err := playList(t, l); code != 9 || err != nil {
		t.Error(code, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// A process that awaits it goes on with what was added meanwhile, and ends without a word when
// nobody is there to say so.
func TestAwait(t *testing.T) {
	if !Shared {
		t.Skip("on this architecture it has a copy of the list")
	}
	for _, goes := range []bool{true, false} {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours := os.NewFile(uintptr(fds[0]), "ours")
		l := &List{}
		// It has our end, too, unless it closes that: so it would never hear that we are gone.
		l.Call("close our end", syscall.SYS_CLOSE, uintptr(fds[0]))
		l.Act("wait", Await)
		runtime.LockOSThread()
		pid, err := l.Fork(0, uintptr(fds[1]))
		runtime.UnlockOSThread()
		syscall.Close(fds[1])
		if err != nil {
			t.Fatal(err)
		}
		want := 125
		if goes {
			want = 4
			become(l, "exit 4")
			if err := l.Go(ours); err != nil {
				t.Error(err)
			}
		} else {
			ours.Close()
		}
		if code := wait(t, pid); code != want {
			t.Errorf("go %v: it ended with %d", goes, code)
		}
		ours.Close()
		runtime.KeepAlive(l)
	}
}

// What comes on a line is an error of a call on the list, an error of none, or no error.
func TestFailure(t *testing.T) {
	l := &List{}
	l.Call("one", syscall.SYS_GETPID)
	l.Call("two", syscall.SYS_GETPID)
	for _, tt := range []struct {
		m    message
		cut  int
		want string
	}{
		{message{saysError, 0, int32(syscall.ENOENT)}, 0, "one: no such file or directory"},
		{message{saysError, 1, int32(syscall.EPERM)}, 0, "two: operation not permitted"},
		{message{saysError, 2, int32(syscall.EPERM)}, 0, "do something that is not on the list: operation not permitted"},
		{message{saysError, -1, int32(syscall.EPERM)}, 0, "do something that is not on the list: operation not permitted"},
		{message{saysError, -1 << 31, int32(syscall.EPERM)}, 0, "do something that is not on the list: operation not permitted"},
		{message{saysError, 1<<31 - 1, int32(syscall.EPERM)}, 0, "do something that is not on the list: operation not permitted"},
		{message{saysError, 0, int32(syscall.EPERM)}, 1, ""},
		{message{saysError, 0, int32(syscall.EPERM)}, 12, ""},
		{message{saysProgram, 0, 77}, 0, ""},
		{message{saysReady, 0, 0}, 0, ""},
		{message{0, -1, -1}, 0, ""},
	} {
		b := tt.m.bytes()
		got := ""
		if err := l.Failure(b[:len(b)-tt.cut]); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%v: %q, want %q", tt.m, got, tt.want)
		}
	}
}

func FuzzFailure(f *testing.F) {
	f.Add([]byte{saysError, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0})
	f.Add([]byte{saysError})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &List{}
		l.Call("one", syscall.SYS_GETPID)
		if err := l.Failure(b); err != nil && err.Error() == "" {
			t.Error("no words")
		}
	})
}
