package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// TestMountsInEtc: on a host whose /etc has files that are mounts, as container engines
// make them, sandboxes start, and root can change /etc.
func TestMountsInEtc(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make such mounts")
	}
	testbed.Needs(t, "unshare")
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		for name, test := range map[string]struct{ prepare, run, want string }{
			"root": {`mount --bind "$F" /etc/issue`, `run --net none --root -- sh -c 'echo new >/etc/made && cat /etc/made /etc/issue && ls -l /etc/mtab'`, "new\nhost's\n"},
		} {
			t.Run(name, func(t *testing.T) {
				file := filepath.Join(b.Dir, "mounted-"+name)
				if err := os.WriteFile(file, []byte("host's\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				c := b.Command("version")
				// As root in a mount namespace of its own, and then as the user.
				as := ""
				if b.UID != 0 {
					as = "exec setpriv --reuid 64646 --regid 64646 --clear-groups "
				}
				out, err := elsewhere(c, "unshare", "-m", "--propagation", "private", "sh", "-c", "F="+file+"; "+test.prepare+" && "+as+b.Coffer+" "+test.run)
				if err != nil || !strings.HasPrefix(out, test.want) {
					t.Errorf("%v:\n%s", err, out)
				}
			})
		}
	})
}

// elsewhere runs another program, as root, in the place and with the variables of one.
func elsewhere(like *exec.Cmd, argv ...string) (string, error) {
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir, c.Env = like.Dir, like.Env
	c.Stderr = os.Stderr
	out, err := c.Output()
	return string(out), err
}

// TestSharedMounts: on a host that passes mounts on between namespaces, as most do, nothing that
// is mounted in a sandbox appears outside, whoever starts it.
func TestSharedMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can have mounts passed on")
	}
	testbed.Needs(t, "unshare")
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		if err := os.WriteFile(filepath.Join(b.Work, ".env"), []byte("KEY=1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		as := ""
		if b.UID != 0 {
			as = "setpriv --reuid 64646 --regid 64646 --clear-groups "
		}
		// First the control: a mount that is made in another namespace does appear.
		script := `seen() { grep -c "$WORK" /proc/self/mountinfo; }
			mkdir "$WORK/control"; unshare -m --propagation unchanged mount --bind "$WORK" "$WORK/control"; seen; umount "$WORK/control"; rmdir "$WORK/control"
			$C exec --create --workspace direct --net none --name s -- sh -c 'cat .env; true' 2>&1; seen
			$C rm --force s >/dev/null; seen; cat .env`
		out, err := elsewhere(b.Command("version"), "unshare", "-m", "--propagation", "shared", "sh", "-c", "WORK="+b.Work+" C='"+as+b.Coffer+"'\n"+script)
		if want := "1\ncat: .env: Permission denied\n0\n0\nKEY=1\n"; err != nil || out != want {
			t.Errorf("%v: got\n%s, want\n%s", err, out, want)
		}
	})
}
