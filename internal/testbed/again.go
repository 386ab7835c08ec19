package testbed

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// AsOrdinary runs the calling test again as the ordinary user if we are root, for whom
// permissions do not exist. It is true for the run that shall do the work.
func AsOrdinary(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	again(t, Ordinary, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Ordinary, Gid: Ordinary}})
	return false
}

// again runs the calling test in a process of another kind, in a directory of its user's, and
// ends as it has ended.
func again(t *testing.T, uid int, how *syscall.SysProcAttr, env ...string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "coffer-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, uid, uid); err != nil && uid != os.Getuid() {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), append(env, "TMPDIR="+dir, "HOME="+dir)...)
	c.Dir, c.SysProcAttr = dir, how
	out, err := c.CombinedOutput()
	switch {
	case err == nil && bytes.Contains(out, []byte("--- SKIP: "+t.Name()+" ")):
		t.Skipf("%s", out)
	case err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")):
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out) // which parts of it were skipped
}
