package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/fakenet"
	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata are the specification of the command line: each runs once
// for every user there is. Besides what testscript offers they know
//
//	coffer ARG…            coffer as the user
//	shell 'COMMANDS'       a shell of the user, on the host
//	exits N COMMAND ARG…   the command exits with exactly N
//	json                   the last command printed JSON, and nothing else
//	until REGEXP COMMAND ARG…
//	                       the command, again and again until it works and prints that: for
//	                       what is true in a moment
//	peer ARG…              one end of a connection, see peer_linux_test.go; to have it
//	                       inside as well, copy $PEER into the workspace
//	[root]                 the user is root
//
// Those whose names begin with net or policy run in a fake internet, and know more: see
// network_linux_test.go; and so do those about images, see image_linux_test.go.
//
// A script starts in the workspace $WORK/work, which is empty but for the script's own
// files, with a home of its own in $WORK/home.

// TestMain makes this program answer to the names of the scripts' commands.
func TestMain(m *testing.M) {
	fakenet.Main(func() {
		testscript.Main(tests{m}, map[string]func(){
			"coffer": func() { become(os.Getenv("COFFER_TEST_BINARY"), os.Args[1:]...) },
			"shell":  func() { become("/bin/sh", append([]string{"-c"}, os.Args[1:]...)...) },
			"exits":  exits,
			"until":  until,
			"peer": func() {
				if os.Getenv("COFFER_TEST_UID") != "" { // not a copy
					drop()
				}
				peer(os.Args[1:])
			},
			"visit":    visit,
			"mkimage":  mkimage,
			"registry": serveImage,
		})
	})
}

// tests is testing.M that removes the built binary.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	testbed.Clean()
	return code
}

// binary is coffer, built once.
func binary(t testing.TB) string { return testbed.Binary(t) }

func TestScripts(t *testing.T) {
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		runScripts(t, b, testscript.Params{Files: scripts(t, func(name string) bool { return !aboutNetwork(name) && !aboutImages(name) })})
	})
}

// scripts are the files of those whose names are chosen.
func scripts(t *testing.T, choose func(name string) bool) (files []string) {
	all, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if choose(filepath.Base(f)) {
			files = append(files, f)
		}
	}
	return files
}

// runScripts runs scripts as the bed's user, with more variables.
func runScripts(t *testing.T, b *testbed.Bed, p testscript.Params, vars ...string) {
	p.WorkdirRoot = b.Dir
	p.RequireUniqueNames = true
	if p.Cmds == nil {
		p.Cmds = map[string]func(*testscript.TestScript, bool, []string){}
	}
	p.Cmds["json"] = wantJSON
	p.Setup = func(e *testscript.Env) error {
		err := furnish(e, b)
		e.Vars = append(e.Vars, vars...)
		return err
	}
	p.Condition = func(c string) (bool, error) {
		switch c {
		case "root":
			return b.UID == 0, nil
		case "limits": // that need control groups
			return b.Command("run", "--memory", "64m", "--cpus", "1", "--", "true").Run() == nil, nil
		}
		return false, fmt.Errorf("unknown condition %q", c)
	}
	testscript.Run(t, p)
}

// wantJSON is for scripts: the last command printed JSON.
func wantJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: json")
	}
	if out := ts.ReadFile("stdout"); !json.Valid([]byte(out)) {
		ts.Fatalf("this is not JSON: %s", out)
	}
}

// furnish gives a script a home and a workspace of the bed's user.
func furnish(e *testscript.Env, all *testbed.Bed) error {
	b := &testbed.Bed{
		UID: all.UID, Coffer: all.Coffer, Dir: e.WorkDir,
		Home: filepath.Join(e.WorkDir, "home"), Work: filepath.Join(e.WorkDir, "work"),
	}
	for _, d := range []string{b.Home, b.Work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if b.UID != os.Getuid() {
		if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", b.UID, b.UID), b.Dir).CombinedOutput(); err != nil {
			return fmt.Errorf("chown: %s", out)
		}
	}
	e.Defer(func() { b.Command("rm", "--force", "--everywhere").Run() })
	commands, _, _ := strings.Cut(os.Getenv("PATH"), ":") // testscript's, with the wrappers
	e.Cd = b.Work
	e.Vars = []string{"WORK=" + e.WorkDir}
	for _, v := range b.Env() {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			v = "PATH=" + commands + ":" + path
		}
		e.Vars = append(e.Vars, v)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// This program is about to be started by the name of coffer, and is not it.
	e.Vars = append(e.Vars, "PEER="+self, "COFFER_TEST_BINARY="+b.Coffer, "COFFER_TEST_UID="+strconv.Itoa(b.UID))
	return nil
}

// drop turns this process into one of the script's user, without a trace of the test.
func drop() (env []string) {
	uid, err := strconv.Atoi(os.Getenv("COFFER_TEST_UID"))
	if err != nil {
		die(err)
	}
	if uid != os.Getuid() {
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)} {
			if err != nil {
				die(err)
			}
		}
	}
	if _, rest, ok := strings.Cut(os.Getenv("PATH"), ":"); ok {
		os.Setenv("PATH", rest)
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COFFER_TEST_") {
			env = append(env, v)
		}
	}
	return env
}

// become replaces this process by a command of the script's user.
func become(path string, args ...string) {
	env := drop()
	die(syscall.Exec(path, append([]string{filepath.Base(path)}, args...), env))
}

// exits runs a command and wants an exit code.
func exits() {
	env := drop()
	want, err := strconv.Atoi(os.Args[1])
	if err != nil {
		die(err)
	}
	c := exec.Command(os.Args[2], os.Args[3:]...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	err = c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		die(err)
	}
	if got := c.ProcessState.ExitCode(); got != want {
		die(fmt.Errorf("%s (exit code %d), want exit code %d", c.ProcessState, got, want))
	}
}

// until runs a command until it prints what is wanted, and prints what it did then.
func until() {
	env := drop()
	want, err := regexp.Compile("(?m)" + os.Args[1])
	if err != nil {
		die(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var out, said bytes.Buffer
		c := exec.Command(os.Args[2], os.Args[3:]...)
		c.Env, c.Stdout, c.Stderr = env, &out, &said
		err := c.Run()
		over := time.Now().After(end)
		if met := err == nil && want.Match(out.Bytes()); met || over {
			os.Stdout.Write(out.Bytes())
			os.Stderr.Write(said.Bytes())
			if !met {
				die(fmt.Errorf("it never printed %q (%v)", want, err))
			}
			return
		}
	}
}

func die(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(199)
}
