package jail

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// What is left running ends with the program without a process namespace, too, whatever it does
// to get away, and nobody else does.
func TestLeftRunning(t *testing.T) {
	withoutProcesses(t, func(t *testing.T, s *stage, w written) {
		for what, script := range map[string]string{
			"in the background":  `sleep 1000 & exit 3`,
			"a daemon":           `(setsid sh -c 'trap "" TERM HUP INT; sleep 1000 & sleep 1000; :' </dev/null >/dev/null 2>&1 &); exit 3`,
			"stopped":            `sh -c 'kill -STOP $$' & sleep 0.05; exit 3`,
			"by a signal":        `setsid sleep 1000 & kill -KILL $$`,
			"going on by itself": `perl -e 'use POSIX; $SIG{CONT} = sub {}; if (!fork) { setsid; $p = getppid; while (1) { kill CONT => $$, -getpgrp; select undef, undef, undef, 0.0001 } }'; exit 3`,
			"on the run":         `perl -e 'for (1..3) { if (!fork) { while (time < $^T + 300) { exit if fork; select undef, undef, undef, 0.0005 } exit } }'; exit 3`,
			"a bomb":             `perl -e 'while (time < $^T + 15) { last if -s "count" > 100; open F, ">>count"; syswrite F, "x"; close F; fork } sleep 1000' & sleep 0.3; exit 3`,
		} {
			os.Remove(filepath.Join(s.Work, "count"))
			r, held, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			w.Argv = []string{"sh", "-c", script}
			c := s.command(t, w)
			// Somebody else's, that is a child of coffer all the same.
			c = s.Program("/bin/sh", append([]string{"-c", `sleep 1000 <&- >&- 2>&- 3>&- & echo $!; exec "$@" >&3`, "sh"}, c.Args...)...)
			c.ExtraFiles = []*os.File{held}
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			held.Close()
			line, _ := bufio.NewReader(out).ReadString('\n')
			bystander, _ := strconv.Atoi(strings.TrimSpace(line))
			c.Wait()
			if code := c.ProcessState.ExitCode(); code != 3 && !(what == "by a signal" && code == 128+int(unix.SIGKILL)) {
				t.Errorf("%s: %v", what, c.ProcessState)
			}
			// All of the jail's have this as their output, and it is closed when they are gone. They
			// would stay for longer than this.
			r.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Errorf("%s: something still runs: %v", what, err)
			}
			r.Close()
			if bystander == 0 || unix.Kill(bystander, unix.SIGKILL) != nil {
				t.Errorf("%s: a process that is not the program's was ended", what)
			}
		}
	})
}

// withoutProcesses is for both ways to run that stay with a program without a process namespace.
func withoutProcesses(t *testing.T, test func(t *testing.T, s *stage, w written)) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Run("mounts", func(t *testing.T) {
			s := newStage(t, b)
			s.needNamespaces(t)
			w := s.policy()
			w.Bare = true
			test(t, s, w)
		})
		t.Run("landlock", func(t *testing.T) {
			s := newStage(t, b)
			test(t, s, s.policy().in(Landlock))
		})
	})
}
