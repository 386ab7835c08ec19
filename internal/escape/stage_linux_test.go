package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// A stage is where attempts are made that need a sandbox, or more, of their own.
type stage struct {
	t           *testing.T
	r           *report
	bed         *testbed.Bed
	here, there *world
	probe       string // as seen inside and outside
}

// scenes are those attempts.
var scenes = []func(*stage){
	terminalCalls, terminalBytes, messages,
	freshRepository, linkedRepository, bareRepository, worktreeRepository, separateRepository, lockedDirectory, fullDirectory, nestedRepository,
	maskedFiles, unmountedMasks, appearingSecrets, soughtSecrets, jailedSecrets,
	copyOnWrite, nesting, homeWorkspace, plantedHome, swappedWorkspace, racedWorkspace,
	keyring, hostIDs,
	forkLimit, memoryLimit, fileLimit, ceilings, socketBuffers, diskSpace, outputFlood, deadline, daemons,
	supervisorDeath, firstProcess, controlAbuse, missingLayer, plantedPrograms,
}

// gitScenes are those that are about git's own ways, of which there are many.
var gitScenes = []func(*stage){typedCommands, bridgedRepository, pushedRepository, swappedUndo, includedRepository}

// result is how a command ended.
type result struct {
	out, err string
	code     int
}

// probed is the outcome that a probe among the output printed.
func (r result) probed() outcome {
	for line := range strings.SplitSeq(r.out, "\n") {
		var o outcome
		if strings.HasPrefix(line, `{"wall"`) && json.Unmarshal([]byte(strings.TrimSpace(line)), &o) == nil {
			return o
		}
	}
	return outcome{Wall: "NO-RESULT " + strings.TrimSpace(r.err)}
}

func (s *stage) run(c *exec.Cmd) result {
	s.t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	code := c.ProcessState.ExitCode()
	return result{out.String(), errs.String(), code}
}

// coffer runs a command line of coffer in a directory.
func (s *stage) coffer(dir string, args ...string) result {
	s.t.Helper()
	c := s.bed.Command(args...)
	c.Dir = dir
	return s.run(c)
}

// inside makes an attempt in a throw-away sandbox over a directory. args are flags,
// "--", and the attempt.
func (s *stage) inside(dir string, args ...string) outcome {
	s.t.Helper()
	full := []string{"run"}
	for i, a := range args {
		full = append(full, a)
		if a == "--" {
			full = append(append(full, s.probe), args[i+1:]...)
			break
		}
	}
	return s.coffer(dir, full...).probed()
}

// outside makes an attempt without a sandbox.
func (s *stage) outside(dir string, args ...string) outcome {
	s.t.Helper()
	c := s.bed.Program(s.probe, args...)
	c.Dir = dir
	return s.run(c).probed()
}

// fresh is an empty directory of the user's.
func (s *stage) fresh(name string) string {
	s.t.Helper()
	dir := filepath.Join(s.bed.Dir, "stage", name)
	must(s.t, os.MkdirAll(dir, 0o755))
	s.here.own(filepath.Dir(dir))
	return dir
}

// mark is a number of seconds for sleep by which its process is found on the host.
func (s *stage) mark(seconds int) string {
	return fmt.Sprintf("%d.%d%d", seconds, os.Getpid(), s.bed.UID)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// met says whether an attempt met one of the walls.
func met(o outcome, walls string) bool {
	for w := range strings.FieldsSeq(walls) {
		if o.Wall == w {
			return true
		}
	}
	return false
}
