package rootfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dpkg keeps a hard link of every file that it replaces. The kernel refuses links to the host's
// files, whose owner does not exist inside, so those files are first copied into the sandbox's
// own layer. And where root of the sandbox may not set set-user-id bits, which are of no use
// inside, dpkg is told to leave them out.
//
// A program does so that runs inside, as root of the sandbox. dpkg and apt-get call it.

// DpkgName is the name of that program.
const DpkgName = "coffer-dpkg"

// dpkgConfig is what the package managers' configuration directories get, by name. program is
// the path of the program.
func dpkgConfig(program string) map[string]string {
	return map[string]string{
		"/etc/dpkg/dpkg.cfg.d/coffer": "pre-invoke=" + program + "\n",
		// apt-get changes the owner and mode of its lists, and downloads as an account that may
		// not exist inside.
		"/etc/apt/apt.conf.d/99coffer": "APT::Sandbox::User \"root\";\nAPT::Update::Pre-Invoke { \"" + program + " lists\"; };\n",
	}
}

// DpkgMain prepares apt's lists for 'lists', or the files that the calling dpkg will replace. What
// fails here fails again in dpkg, which reports it.
func DpkgMain(args []string) int {
	if slices.Equal(args, []string{"lists"}) {
		_ = filepath.WalkDir("/var/lib/apt/lists", func(path string, _ fs.DirEntry, _ error) error {
			warnDpkg(copyUp(path))
			return nil
		})
		return 0
	}
	diverted, overrides := diversions(), []override{}
	for _, deb := range archives(dpkgCaller()) {
		warnDpkg(packageContents(deb, func(h *tar.Header) {
			path := filepath.Join("/", h.Name)
			if h.Mode&setID != 0 {
				overrides = append(overrides, override{path, "root", "root", h.Mode})
			}
			warnDpkg(copyUp(path))
			if to := diverted[path]; to != "" {
				warnDpkg(copyUp(to))
			}
		}))
	}
	if !maySetID() {
		warnDpkg(writeOverrides("/var/lib/dpkg/statoverride", overrides))
	}
	return 0
}

func warnDpkg(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "coffer:", err)
	}
}

// dpkgCaller returns the arguments of the dpkg that started this program, with or without a shell
// between them.
func dpkgCaller() []string {
	pid := os.Getppid()
	for range 3 {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		argv := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		if filepath.Base(argv[0]) == "dpkg" {
			return argv[1:]
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			return nil
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return nil
}

// archives are the packages among dpkg's arguments: files, and directories with --recursive. An
// installation below another root needs no preparation.
func archives(args []string) (debs []string) {
	recursive := slices.Contains(args, "--recursive") || slices.Contains(args, "-R")
	for _, a := range args {
		info, err := os.Stat(a)
		switch {
		case strings.HasPrefix(a, "--root=") || strings.HasPrefix(a, "--instdir="):
			return nil
		case strings.HasPrefix(a, "-") || err != nil:
		case info.Mode().IsRegular():
			debs = append(debs, a)
		case info.IsDir() && recursive:
			_ = filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
				if err == nil && strings.HasSuffix(path, ".deb") {
					debs = append(debs, path)
				}
				return nil
			})
		}
	}
	return debs
}

// diversions are the paths that dpkg gives files instead of those in their packages.
func diversions() map[string]string {
	text, _ := os.ReadFile("/var/lib/dpkg/diversions") // path, new path, package; a line each
	lines, to := strings.Split(string(text), "\n"), map[string]string{}
	for i := 0; i+2 < len(lines); i += 3 {
		to[lines[i]] = lines[i+1]
	}
	return to
}

// packageContents calls f for everything in a package.
func packageContents(deb string, f func(*tar.Header)) error {
	c := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	defer c.Wait()
	defer out.Close()
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if err != nil {
			return nil // dpkg reports what is wrong with it
		}
		f(h)
	}
}

// foreignID is how the kernel shows an id that does not exist inside.
const foreignID = 65534

// copyUp replaces a file of the host's by a copy that belongs to root of the sandbox.
func copyUp(path string) error {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != foreignID && st.Gid != foreignID {
		return nil
	}
	to, err := os.CreateTemp(filepath.Dir(path), ".coffer-")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name())
	defer to.Close()
	// A file that only root of the host may read stays empty: dpkg does not read it.
	from, err := os.Open(path)
	if err == nil {
		defer from.Close()
		if _, err = io.Copy(to, from); err == nil {
			err = to.Chmod(info.Mode().Perm())
		}
	} else if errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	if err == nil {
		err = os.Chtimes(to.Name(), info.ModTime(), info.ModTime())
	}
	if err == nil {
		err = os.Rename(to.Name(), path)
	}
	return err
}

const setID = unix.S_ISUID | unix.S_ISGID

// maySetID says whether root of the sandbox may set a set-user-id bit. Where it may not, chmod
// succeeds and does nothing.
func maySetID() bool {
	f, err := os.CreateTemp("", "coffer-")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	defer f.Close()
	err = f.Chmod(0o700 | os.ModeSetuid)
	info, statErr := f.Stat()
	return errors.Join(err, statErr) == nil && info.Mode()&os.ModeSetuid != 0
}

// An override is an owner and a mode that dpkg gives to a path instead of those in the package.
type override struct {
	path, user, group string
	mode              int64
}

// writeOverrides adds overrides to dpkg's file of them, in which no path may be twice and no
// mode has a set-user-id bit then.
func writeOverrides(file string, more []override) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var all []override
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(f) < 4 {
			continue
		}
		mode, err := strconv.ParseInt(f[2], 8, 64)
		if err != nil {
			return fmt.Errorf("%s: mode %q of %s", file, f[2], f[3])
		}
		all = append(all, override{f[3], f[0], f[1], mode})
	}
	for _, o := range more {
		if !slices.ContainsFunc(all, func(a override) bool { return a.path == o.path }) {
			all = append(all, o)
		}
	}
	var b strings.Builder
	for _, o := range all {
		fmt.Fprintf(&b, "%s %s %o %s\n", o.user, o.group, o.mode&^setID, o.path)
	}
	if err := os.WriteFile(file+".coffer", []byte(b.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".coffer", file)
}
