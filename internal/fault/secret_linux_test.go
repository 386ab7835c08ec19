package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// vaultMoments are steps in the writing of a vault that can be seen from outside.
var vaultMoments = []string{"lock", "identity.new", "identity", "secrets.age.new"}

// The command that writes the vault is killed at many moments: there is the old one or the
// new one, it opens, and it can be written again.
func TestKillSecret(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		vault := filepath.Join(filepath.Dir(w.store()), "vault")
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("first=%v", first), func(t *testing.T) {
				for _, when := range killTimes(vault) {
					try(t, when.name, func(t *testing.T) {
						if err := os.RemoveAll(vault); err != nil {
							t.Fatal(err)
						}
						before := []string{""}
						if !first {
							w.keep(t, "old")
							before = []string{"old"}
						}
						c := w.setSecret("new")
						start(t, c)
						when.wait(c)
						syscall.Kill(c.Process.Pid, syscall.SIGKILL)
						finish(t, c)
						w.holds(t, append(before, "new")...)
						w.keep(t, "next")
						w.holds(t, "next")
						if left, _ := filepath.Glob(vault + "/*.new"); len(left) > 0 {
							t.Errorf("left behind: %v", left)
						}
					})
				}
			})
		}
	})
}

// A killTime is when to kill.
type killTime struct {
	name string
	wait func(c *exec.Cmd)
}

func killTimes(vault string) (list []killTime) {
	for _, d := range delays {
		list = append(list, killTime{fmt.Sprintf("%dms", d), func(*exec.Cmd) { time.Sleep(time.Duration(d) * time.Millisecond) }})
	}
	for _, name := range vaultMoments {
		list = append(list, killTime{name, func(c *exec.Cmd) {
			for !exists(filepath.Join(vault, name)) {
				state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
				if err != nil || strings.Contains(string(state), ") Z ") {
					return
				}
			}
		}})
	}
	return list
}

func (w world) setSecret(value string) *exec.Cmd {
	c := w.Command("secret", "set", "TOKEN")
	c.Stdin = strings.NewReader(value)
	return c
}

// keep sets the secret.
func (w world) keep(t *testing.T, value string) {
	t.Helper()
	if r := finish(t, w.setSecret(value)); r.code != 0 {
		t.Fatal(r)
	}
}

// holds wants the secret to be one of these, "" being none at all, and the list to agree.
func (w world) holds(t *testing.T, values ...string) {
	t.Helper()
	listed := strings.Contains(w.must(t, "secret", "ls"), "TOKEN")
	r := w.coffer(t, "secret", "get", "TOKEN")
	for _, v := range values {
		if r.code == 0 && listed && r.out == v || v == "" && !listed && strings.Contains(r.err, "there is no secret TOKEN") {
			return
		}
	}
	t.Fatalf("%s\nlisted: %v, want one of %q", r, listed, values)
}
