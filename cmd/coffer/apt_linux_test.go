package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// Root of a sandbox installs and removes packages, the changes last as long as the
// sandbox, and the host does not notice: whatever ids are mapped.
func TestInstallPackage(t *testing.T) {
	testbed.Needs(t, "dpkg-deb", "apt-get")
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		pkg := filepath.Join(b.Dir, "pkg")
		for name, text := range map[string]string{
			"DEBIAN/control":    "Package: coffer-test-hello\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: a test\n",
			"DEBIAN/postinst":   "#!/bin/sh\nset -e\nmkdir -p /var/lib/coffer-test\necho configured > /var/lib/coffer-test/state\n",
			"usr/bin/cof-hello": "#!/bin/sh\ncat /var/lib/coffer-test/state\n",
			"etc/cof-hello/c":   "x\n",
		} {
			path := filepath.Join(pkg, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", pkg, filepath.Join(b.Work, "hello.deb")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		coffer := func(args ...string) string {
			t.Helper()
			out, err := b.Command(args...).CombinedOutput()
			if err != nil {
				t.Fatalf("coffer %s: %v\n%s", strings.Join(args, " "), err, out)
			}
			return string(out)
		}
		coffer("exec", "--create", "--name", "pkg", "--", "sudo", "apt-get", "install", "-y", "./hello.deb")
		if got := coffer("exec", "-m", "pkg", "--", "cof-hello"); got != "configured\n" {
			t.Errorf("the installed program said %q", got)
		}
		coffer("stop", "pkg")
		if got := coffer("exec", "-m", "pkg", "--", "cof-hello"); got != "configured\n" {
			t.Errorf("after a stop the installed program said %q", got)
		}
		coffer("exec", "-m", "pkg", "--", "sudo", "apt-get", "remove", "-y", "coffer-test-hello")
		if err := b.Command("exec", "-m", "pkg", "--", "cof-hello").Run(); err == nil {
			t.Error("the removed program still runs")
		}
		for _, path := range []string{"/usr/bin/cof-hello", "/etc/cof-hello", "/var/lib/coffer-test"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s is on the host", path)
			}
		}
	})
}
