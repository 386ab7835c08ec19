package knock

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A socket is found wherever it is, also where its path does not fit into an address.
func TestConnect(t *testing.T) {
	for _, deep := range []int{0, 1} {
		dir := filepath.Join(t.TempDir(), strings.Repeat(strings.Repeat("x", 120)+"/", deep))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		at, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer at.Close()
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(s)
		if err := unix.Bind(s, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(at.Fd())) + "/s"}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Listen(s, 1); err != nil {
			t.Fatal(err)
		}
		if fd := connect(dir, "s"); fd < 0 {
			t.Errorf("nobody hears in %s", dir)
		} else {
			unix.Close(fd)
		}
		if fd := connect(dir, "other"); fd >= 0 {
			t.Errorf("somebody hears in %s who is not there", dir)
		}
	}
}

// The arguments are those that package os has.
func TestArguments(t *testing.T) {
	const inside = "COFFER_TEST_ARGUMENTS"
	if os.Getenv(inside) != "" {
		if got := arguments(); !slices.Equal(got, os.Args) {
			t.Errorf("%.300q, want %.300q", got, os.Args)
		}
		return
	}
	for _, more := range [][]string{nil, {""}, {"a", "", "b\n c", ""}, {strings.Repeat("x", 4096)}, {strings.Repeat("y", 100_000), "z"}} {
		// Exactly as long as the first piece that is read, one less and one more.
		for fill := range 3 {
			c := exec.Command("/proc/self/exe", append([]string{"-test.run=^TestArguments$", "--"}, more...)...)
			long := 0
			for _, a := range c.Args {
				long += len(a) + 1
			}
			if pad := 4096 - long - 2 + fill; pad > 0 {
				c.Args = append(c.Args, strings.Repeat("p", pad))
			}
			c.Env = append(os.Environ(), inside+"=1")
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	}
	if got := split([]byte("a\x00\x00b")); !slices.Equal(got, []string{"a", ""}) {
		t.Errorf("%q", got)
	}
}
