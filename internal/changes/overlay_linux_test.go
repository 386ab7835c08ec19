package changes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// The test binary starts itself again, in namespaces, to do one of these.
var children = map[string]func(args []string) error{
	"overlay": childOverlay,
	"full":    childFull,
	"mount":   childMount,
}

func TestMain(m *testing.M) {
	if name := os.Getenv("CHANGES_TEST_CHILD"); name != "" {
		if err := children[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			if errors.Is(err, errNoOverlay) {
				os.Exit(77)
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// errNoOverlay: the kernel is too old to let users have one, or the file system is itself an
// overlay, as in a container; the test is skipped.
var errNoOverlay = errors.New("no overlay on this host")

// runChild runs one of the children and returns what it printed.
func runChild(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "CHANGES_TEST_CHILD="+name)
	cmd.SysProcAttr = testbed.Namespaces(t, 0)
	cmd.Dir = "/"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() == 77 {
		t.Skip(stderr.String())
	} else if err != nil {
		t.Fatalf("child %s: %v\n%s", name, err, stderr.Bytes())
	}
	return out
}

// childOverlay mounts an overlay, runs a script in it, and prints what the
// directory looks like from inside.
func childOverlay(args []string) error {
	lower, upper, work, at, script := args[0], args[1], args[2], args[3], args[4]
	opts := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work)
	if err := unix.Mount("overlay", at, "overlay", 0, opts); err == unix.EPERM || err == unix.EINVAL || err == unix.ENODEV {
		return fmt.Errorf("%w: %w", errNoOverlay, err)
	} else if err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.Dir, cmd.Stderr = at, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	seen, err := snapshot(at)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

// snapshot describes every entry of a directory: type, mode, content.
func snapshot(dir string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(b)
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			text += " -> " + target
		}
		out[Quote(p[len(dir)+1:])] = text // quoted: JSON takes no odd bytes
		return nil
	})
	return out, err
}

// scene is a workspace with an upper for it.
type scene struct{ lower, upper, work, at string }

func newScene(t *testing.T) scene {
	t.Helper()
	top := t.TempDir()
	s := scene{top + "/lower", top + "/upper", top + "/work", top + "/merged"}
	for _, d := range []string{s.lower, s.upper, s.work, s.at} {
		must(t, os.Mkdir(d, 0o755))
		// t.TempDir cannot remove what nobody may write to; Discard can.
		t.Cleanup(func() { Discard(d, "") })
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sh runs a script in the workspace, as the user would.
func (s scene) sh(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// sandbox runs a script on the overlay and returns what it left, seen inside.
func (s scene) sandbox(t *testing.T, script string) map[string]string {
	t.Helper()
	out := runChild(t, "overlay", s.lower, s.upper, s.work, s.at, script)
	var seen map[string]string
	must(t, json.Unmarshal(out, &seen))
	return seen
}

func (s scene) list(t *testing.T) []Change {
	t.Helper()
	list, err := List(context.Background(), s.lower, s.upper)
	must(t, err)
	return list
}

func (s scene) apply(t *testing.T, opts ApplyOptions) Result {
	t.Helper()
	res, err := Apply(context.Background(), s.lower, s.upper, opts)
	must(t, err)
	return res
}

// brief is a list of changes in one line each.
func brief(list []Change) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s %s", c.Kind, Quote(c.Path))
		if c.Skipped != "" {
			fmt.Fprintf(&b, " [%s]", c.Skipped)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func same2(t *testing.T, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func sameTree(t *testing.T, got, want map[string]string) {
	t.Helper()
	for p, w := range want {
		if got[p] != w {
			t.Errorf("%q is %q, in the sandbox it was %q", p, got[p], w)
		}
	}
	for p, g := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%q (%q) was not in the sandbox", p, g)
		}
	}
}

const baseTree = `
	mkdir -p d/e/f src; echo 1 >a; echo 2 >b; echo 3 >d/c; echo 4 >d/e/g; echo 5 >d/e/f/h
	printf 'one\ntwo\nthree\n' >src/main; ln -s a link; ln -s /etc abs; ln b b2`

// TestOverlay applies what real overlays hold, and wants the workspace to look
// afterwards as it did inside.
func TestOverlay(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"nothing", `:`, ``},
		{"copy up without change", `: >>a; touch b; chmod 600 d/c; chmod 644 d/c; chmod 700 src; chmod 755 src`, ``},
		{"files", `echo x >>a; echo new >n; rm b; chmod +x src/main`,
			"modified a\ndeleted b\nadded n\nmode changed src/main"},
		{"same size", `printf '9\n' >a`, "modified a"},
		{"hard links", `echo x >b; ln a a3; echo y >>a`, "modified a\nadded a3\nmodified b"},
		{"links", `rm link; ln -s b link; ln -s d/e n; rm abs; echo file >abs`,
			"type changed abs\nmodified link\nadded n"},
		{"remove tree", `rm -r d`, "deleted d\ndeleted d/c\ndeleted d/e\ndeleted d/e/f\ndeleted d/e/f/h\ndeleted d/e/g"},
		{"opaque and opaque below", `rm -r d; mkdir -p d/e; echo 3 >d/c`,
			"deleted d/e/f\ndeleted d/e/f/h\ndeleted d/e/g"},
		{"directory to file", `rm -r d; echo f >d`,
			"type changed d\ndeleted d/c\ndeleted d/e\ndeleted d/e/f\ndeleted d/e/f/h\ndeleted d/e/g"},
		{"directory to link", `rm -r src; ln -s d src`, "type changed src\ndeleted src/main"},
		{"file to directory", `rm a; mkdir -p a/x; echo 1 >a/x/y`, "type changed a\nadded a/x\nadded a/x/y"},
		{"link to directory", `rm abs; mkdir abs; echo 1 >abs/hosts`, "type changed abs\nadded abs/hosts"},
		{"rename", `mv d/c d/e/c2; mv src src2`,
			"deleted d/c\nadded d/e/c2\ndeleted src\ndeleted src/main\nadded src2\nadded src2/main"},
		{"modes of directories", `mkdir ro; echo 1 >ro/f; chmod 555 ro; echo 1 >d/n; chmod 500 d; chmod 1777 src`,
			"mode changed d\nadded d/n\nadded ro\nadded ro/f\nmode changed src"},
		{"removed and made again", `rm a; echo 1 >a; rm -r src; mkdir src; printf 'one\ntwo\nthree\n' >src/main`, ``},
		{"odd names", `echo 1 >"$(printf 'new\nline')"; echo 2 >"$(printf 'esc\033[31m')"; echo 3 >"$(printf 'bad\377')"; echo 4 >./-rf; mkdir 'sp ace'; echo 5 >'sp ace/"'`,
			"added -rf\nadded \"bad\\377\"\nadded \"esc\\033[31m\"\nadded \"new\\nline\"\nadded sp ace\nadded \"sp ace/\\\"\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.sh(t, s.lower, baseTree)
			inside := s.sandbox(t, c.script)
			same2(t, "list", brief(s.list(t)), c.want)
			before, err := snapshot(s.upper)
			must(t, err)
			res := s.apply(t, ApplyOptions{})
			if got, want := len(res.Applied), len(strings.Split(c.want, "\n")); c.want != "" && got != want {
				t.Errorf("applied %s", brief(res.Applied))
			}
			got, err := snapshot(s.lower)
			must(t, err)
			sameTree(t, got, inside)
			same2(t, "list after", brief(s.list(t)), "")
			after, err := snapshot(s.upper)
			must(t, err)
			sameTree(t, after, before) // Apply leaves the upper alone
			// Once more through the overlay: the sandbox sees no difference.
			sameTree(t, s.sandbox(t, `:`), inside)
		})
	}
}

// TestClear: without the applied entries in the upper the sandbox sees the same.
func TestClear(t *testing.T) {
	const script = `rm -r d; mkdir -p d/e; echo 3 >d/new; rm b; echo x >>a; mkdir n; echo 1 >n/f; mkdir .git; echo 1 >.git/x; rm -r src; echo 1 >src`
	for _, paths := range [][]string{nil, {"a", "d/new"}, {"d"}, {"n/f"}, {"b", "src"}} {
		t.Run(strings.Join(paths, " "), func(t *testing.T) {
			s := newScene(t)
			s.sh(t, s.lower, baseTree)
			inside := s.sandbox(t, script)
			s.apply(t, ApplyOptions{Paths: paths, Clear: true})
			sameTree(t, s.sandbox(t, `:`), inside)
			if paths == nil {
				same2(t, "list", brief(s.list(t)), "added .git [git]")
				left, err := snapshot(s.upper)
				must(t, err)
				if len(left) != 2 {
					t.Errorf("left in the upper: %v", left)
				}
			}
		})
	}
}

// TestFull fills the disk in the middle, then makes room and continues.
func TestFull(t *testing.T) {
	s := newScene(t)
	out := runChild(t, "full", s.lower, s.upper)
	if string(out) != "ok" {
		t.Fatalf("child said %q", out)
	}
}

func childFull(args []string) error {
	lower, upper := args[0], args[1]
	if err := unix.Mount("tmpfs", lower, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	for name, size := range map[string]int{"a": 1000, "b": 2 << 20, "c": 1000} {
		if err := os.WriteFile(filepath.Join(upper, name), bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			return err
		}
	}
	os.WriteFile(lower+"/b", []byte("old"), 0o644)
	apply := func() error {
		_, err := Apply(context.Background(), lower, upper, ApplyOptions{Force: true})
		return err
	}
	var part *PartialError
	if err := apply(); !errors.As(err, &part) || !errors.Is(err, unix.ENOSPC) || part.Path != "b" {
		return fmt.Errorf("full disk: %v", err)
	}
	names, _ := filepath.Glob(lower + "/.*")
	if old, _ := os.ReadFile(lower + "/b"); string(old) != "old" || len(names) > 0 {
		return fmt.Errorf("full disk left b = %.10q and %v", old, names)
	}
	if err := unix.Mount("tmpfs", lower, "tmpfs", unix.MS_REMOUNT, "size=8m"); err != nil {
		return err
	}
	if err := apply(); err != nil {
		return err
	}
	if list, err := List(context.Background(), lower, upper); err != nil || len(list) > 0 {
		return fmt.Errorf("left: %v %v", list, err)
	}
	fmt.Print("ok")
	return nil
}

// TestMountPoint: a file system mounted in the workspace is not the sandbox's
// to change; it never saw it.
func TestMountPoint(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `mkdir -p m gone/m`)
	s.sh(t, s.upper, `mkdir m; echo 1 >m/f; echo 2 >ok`)
	out := runChild(t, "mount", s.lower, s.upper)
	same2(t, "list", string(out), "modified m [mount point]\nadded ok")
}

func childMount(args []string) error {
	if err := unix.Mount("tmpfs", args[0]+"/m", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	if _, err := Apply(context.Background(), args[0], args[1], ApplyOptions{}); err != nil {
		return err
	}
	if _, err := os.Stat(args[0] + "/m/f"); err == nil {
		return errors.New("written into the mount")
	}
	os.Remove(args[0] + "/ok")
	list, err := List(context.Background(), args[0], args[1])
	fmt.Print(brief(list))
	return err
}
