package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// HostView plans a root that shows this host's tools, or an image's, the workspace and a
// home of the sandbox's own.
func HostView(v View) (*Plan, error) {
	p := &Plan{Volatile: v.Volatile, Writable: []string{"/tmp", "/run", "/var", "/dev", "/proc"}}
	if err := p.system(v); err != nil {
		return nil, err
	}
	p.kernel(v.Nesting)
	p.limits(v)
	p.own(v)
	p.identity(v)
	if err := p.places(v); err != nil {
		return nil, err
	}
	for _, m := range v.Mounts {
		p.add(Step{Do: Bind, Source: m.Source, Target: m.Target, Mine: true, ReadOnly: m.ReadOnly})
		if !m.ReadOnly {
			p.Writable = append(p.Writable, m.Target)
		}
	}
	p.includes(v)
	p.caches(v)
	p.profile(v)
	if err := p.trust(v); err != nil {
		return nil, err
	}
	if err := p.maskSockets(v); err != nil {
		return nil, err
	}
	p.masks(v.Masks)
	return p, nil
}

// includes shows the worktrees of other repositories. The directories above them are the
// sandbox's, and stay where they are while it runs.
func (p *Plan) includes(v View) {
	var above []Step
	for _, i := range v.Includes {
		p.add(Step{Do: Dir, Target: i.At})
		for _, pin := range pins(v.Workspace, i.At) {
			if !slices.Contains(above, pin) {
				above = append(above, pin)
			}
		}
	}
	p.add(above...)
	for _, i := range v.Includes {
		p.add(Step{Do: Bind, Source: i.Tree, Target: i.At, Mine: true})
		p.add(i.Git.steps(i.At)...)
		p.Writable = append(p.Writable, i.Git.At)
	}
}

// masks hides what must stay unread. The pins come first: what is mounted below a place is
// not seen through a mount that is laid over it later.
func (p *Plan) masks(m Masks) {
	for _, at := range m.Pinned {
		p.add(Step{Do: Pin, Target: at, Optional: true})
	}
	for _, at := range m.Anchored {
		p.add(Step{Do: Anchor, Data: at[0], Target: at[1], Optional: true})
	}
	for _, at := range m.Locked {
		p.add(Step{Do: Lock, Target: at, Optional: true})
	}
	for _, at := range m.Hidden {
		p.add(Step{Do: Forbid, Target: at, Optional: true})
	}
}

func (p *Plan) add(s ...Step) { p.Steps = append(p.Steps, s...) }

// hostSystem shows the host's system directories.
func (p *Plan) hostSystem() {
	p.add(
		Step{Do: Dir, Target: "/var"},
		Step{Do: Symlink, Target: "/var/run", Data: "/run"},
		Step{Do: Dir, Target: "/var/log"},
		Step{Do: Dir, Target: "/var/lib"},
		Step{Do: Dir, Target: "/var/cache"},
		Step{Do: Dir, Target: "/var/spool"},
		Step{Do: Dir, Target: "/root"},
		Step{Do: Dir, Target: "/home"},
		Step{Do: Dir, Target: "/boot"}, // empty, but packages come with it
		Step{Do: Dir, Target: "/media"},
		Step{Do: Dir, Target: "/mnt"},
		Step{Do: Dir, Target: "/srv"},
	)
	for _, dir := range system {
		info, err := os.Lstat(dir)
		switch {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0:
			if to, err := os.Readlink(dir); err == nil {
				p.add(Step{Do: Symlink, Target: dir, Data: to})
			}
		case info.IsDir():
			p.add(Step{Do: Bind, Source: dir, Target: dir, ReadOnly: true})
			p.System = append(p.System, dir)
		}
	}
}

// system shows the system directories, and what is in memory in their midst.
func (p *Plan) system(v View) error {
	if v.Image == "" {
		p.hostSystem()
	} else if err := p.imageSystem(v); err != nil {
		return err
	}
	p.add(
		Step{Do: Scratch, Target: "/tmp", Shared: true},
		Step{Do: Scratch, Target: "/run"},
		temporary(v, "/run/lock"),
		temporary(v, "/var/tmp"),
		// The number of processors is all that programs want of /sys.
		Step{Do: Bind, Source: "/sys/devices/system/cpu", Target: "/sys/devices/system/cpu", ReadOnly: true, Optional: true},
	)
	return nil
}

// temporary makes a directory the same as /tmp, unless the workspace or the home is in it.
func temporary(v View, dir string) Step {
	if safepath.Within(v.Workspace, dir) || safepath.Within(v.Home, dir) {
		return Step{Do: Scratch, Target: dir, Shared: true}
	}
	return Step{Do: Symlink, Target: dir, Data: "/tmp"}
}

// kernel gives the sandbox its own /proc and /dev, with what runc hides hidden. With
// nesting nothing is: the kernel lets nobody mount a /proc who sees only part of one.
func (p *Plan) kernel(nesting bool) {
	p.add(Step{Do: Proc, Target: "/proc", Data: ceilings()})
	if !nesting {
		p.closeProc()
	}
	p.devices(false)
}

// devices gives a /dev in which nothing belongs to another terminal, or is a disk.
func (p *Plan) devices(readOnly bool) {
	p.add(Step{Do: Scratch, Target: "/dev"})
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		p.add(Step{Do: Bind, Source: "/dev/" + d, Target: "/dev/" + d, Device: true, ReadOnly: readOnly})
	}
	p.add(
		Step{Do: Devpts, Target: "/dev/pts"},
		Step{Do: Symlink, Target: "/dev/ptmx", Data: "pts/ptmx"},
		Step{Do: Symlink, Target: "/dev/fd", Data: "/proc/self/fd"},
		Step{Do: Symlink, Target: "/dev/stdin", Data: "/proc/self/fd/0"},
		Step{Do: Symlink, Target: "/dev/stdout", Data: "/proc/self/fd/1"},
		Step{Do: Symlink, Target: "/dev/stderr", Data: "/proc/self/fd/2"},
		Step{Do: Scratch, Target: "/dev/shm", Shared: true},
	)
}

// ceilings are how much a sandbox may take of what the kernel counts by user, by names in
// /proc/sys/user: half. Otherwise its user has nothing left, inotify instances for one.
func ceilings() string {
	number := func(file string) int {
		text, _ := os.ReadFile(file)
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return n
	}
	var all strings.Builder
	names, _ := os.ReadDir("/proc/sys/user")
	for _, e := range names {
		most := number("/proc/sys/user/" + e.Name())
		// In a container the first number may be none, and this one is the host's.
		kind, what, _ := strings.Cut(strings.TrimPrefix(e.Name(), "max_"), "_")
		if host := number("/proc/sys/fs/" + kind + "/max_user_" + what); host > 0 {
			most = min(most, host)
		}
		fmt.Fprintf(&all, "%s %d\n", e.Name(), (most+1)/2)
	}
	return all.String()
}

// closeProc covers what of /proc is about the machine and not about the sandbox.
func (p *Plan) closeProc() {
	for _, m := range []string{
		"acpi", "asound", "interrupts", "kcore", "keys", "key-users", "latency_stats",
		"sched_debug", "scsi", "timer_list", "timer_stats", "kallsyms", "kpagecount",
		"kpageflags", "kpagecgroup", "vmallocinfo", "pagetypeinfo", "slabinfo", "mtrr",
	} {
		if _, err := os.Lstat("/proc/" + m); err == nil {
			p.add(Step{Do: Mask, Target: "/proc/" + m, Optional: true})
		}
	}
	for _, m := range []string{"bus", "fs", "irq", "sys", "sysrq-trigger"} {
		if _, err := os.Lstat("/proc/" + m); err == nil {
			p.add(Step{Do: Lock, Target: "/proc/" + m, Optional: true})
		}
	}
}

// layersDir is where the layers hang, covered.
const layersDir = Own + "/layers"

// IncludeAt is where in a workspace the worktrees of other repositories are shown.
const IncludeAt = ".coffer/include"

// own brings in what Coffer itself needs inside: its layers, and its program, which
// answers to the name sudo, and others.
func (p *Plan) own(v View) {
	p.add(
		Step{Do: Keep, Source: filepath.Join(v.Sandbox, "layers"), Target: layersDir},
		Step{Do: Bind, Source: v.Program, Target: Own + "/bin/coffer", ReadOnly: true},
		program("sudo"), program("su"), program("runuser"), program(DpkgName),
	)
	for _, name := range v.Programs {
		p.add(program(name))
	}
}

// program is another name by which Coffer's program is known inside.
func program(name string) Step {
	return Step{Do: Symlink, Target: Own + "/bin/" + name, Data: "coffer"}
}

// identity makes names resolve: the user's, and the sandbox's own host name.
func (p *Plan) identity(v View) {
	hosts := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t" + v.Hostname + "\n"
	p.add(
		Step{Do: Replace, Target: "/etc/hosts", Data: hosts, Optional: true},
		Step{Do: Replace, Target: "/etc/hostname", Data: v.Hostname + "\n", Optional: true},
	)
	if v.Resolver != "" {
		at := resolvConf
		if v.Image == "" {
			at = followed(at)
		}
		p.add(Step{Do: Replace, Target: at, Data: v.Resolver, Create: true})
	}
	if v.Passwd != "" {
		p.add(Step{Do: Replace, Target: "/etc/passwd", Data: v.Passwd})
	}
	if v.Group != "" {
		p.add(Step{Do: Replace, Target: "/etc/group", Data: v.Group})
	}
	if v.Login != "" {
		at := "/etc/profile"
		if real, err := filepath.EvalSymlinks(at); err == nil && v.Image == "" {
			at = real
		}
		p.add(Step{Do: Replace, Target: at, Data: keepPath(v.Login), Optional: true})
	}
	if v.GitConfig != "" {
		p.add(Step{Do: Replace, Target: "/etc/gitconfig", Data: v.GitConfig, Create: true})
	}
}

const resolvConf = "/etc/resolv.conf"

// followed is where a file of the host's really is, when it is a link: into /run, most
// often, where the sandbox has nothing.
func followed(path string) string {
	to, err := os.Readlink(path)
	switch {
	case err != nil:
		return path
	case filepath.IsAbs(to):
		return filepath.Clean(to)
	}
	return filepath.Join(filepath.Dir(path), to)
}

// places mounts the home and the workspace, outer before inner, then what lies
// inside them.
func (p *Plan) places(v View) error {
	home := []Step{{Do: Bind, Source: filepath.Join(v.Sandbox, "home"), Target: v.Home}}
	p.Writable = append(p.Writable, v.Home)
	if v.Workspace == "" || v.Mode == None {
		p.add(home...)
		return p.toolchains(v)
	}
	work, err := workspace(v)
	if err != nil {
		return err
	}
	switch {
	case v.Workspace == v.Home:
		p.add(work...)
		return p.hide(v)
	case safepath.Within(v.Home, v.Workspace): // the home is inside the workspace
		p.add(append(work, home...)...)
	default:
		p.add(append(home, work...)...)
	}
	p.Writable = append(p.Writable, v.Workspace)
	if v.Git != nil {
		p.Writable = append(p.Writable, v.Git.At)
	}
	if err := p.toolchains(v); err != nil {
		return err
	}
	return p.hide(v)
}

// workspace shows the user's directory at its own path.
func workspace(v View) ([]Step, error) {
	var st unix.Stat_t
	if err := unix.Stat(v.Workspace, &st); err != nil {
		return nil, fmt.Errorf("look at %s: %w", v.Workspace, err)
	}
	same := Step{Do: Identify, Target: v.Workspace, Dev: uint64(st.Dev), Ino: st.Ino}
	if v.Mode == CopyOnWrite {
		lower := Own + "/lower"
		same.Target = lower
		steps := []Step{
			{Do: Bind, Source: v.Workspace, Target: lower, Mine: true, ReadOnly: true},
			same,
			{Do: Overlay, Source: lower, Target: v.Workspace, Data: "workspace"},
		}
		if v.Git != nil {
			steps = append(steps, v.Git.steps(v.Workspace)...)
		}
		return steps, nil
	}
	steps := []Step{{Do: Bind, Source: v.Workspace, Target: v.Workspace, Mine: true}, same}
	if v.Git != nil && v.Mode == Worktree {
		return append(steps, v.Git.steps(v.Workspace)...), nil
	}
	if IsGitDir(v.Workspace) {
		return nil, ui.Error(fmt.Sprintf("%s is itself a git directory, whose config and hooks a sandbox could change", v.Workspace),
			"use --workspace cow, or a worktree of it: coffer exec --create")
	}
	if v.PrivateGit {
		own := Step{Do: Bind, Source: filepath.Join(v.Sandbox, "layers", "git"), Target: filepath.Join(v.Workspace, ".git")}
		above, err := submodulesAbove(v.Workspace)
		return append(append(steps, own), above...), err
	}
	git, err := protectGit(v.Workspace, v.Home, v.Git != nil)
	steps = append(steps, git...)
	if v.Git != nil {
		steps = append(steps, v.Git.steps(v.Workspace)...)
	}
	return steps, err
}

// hide covers what must not be seen although it lies inside the workspace.
func (p *Plan) hide(v View) error {
	for _, h := range v.Hide {
		switch {
		case h == v.Workspace || safepath.Within(v.Workspace, h):
			return fmt.Errorf("the workspace %s is inside coffer's own store %s", v.Workspace, h)
		case safepath.Within(h, v.Workspace):
			p.add(pins(v.Workspace, h)...)
			p.add(Step{Do: Mask, Target: h})
		}
	}
	return nil
}

// toolchains shows the user's own tools.
func (p *Plan) toolchains(v View) error {
	if v.Workspace != "" && (v.Workspace == v.Home || safepath.Within(v.Home, v.Workspace)) {
		return nil // they are visible already
	}
	if v.Image != "" {
		return nil // they are made for the host's libraries
	}
	shown := append([]string(nil), toolchains...)
	sort.Strings(shown)
	for _, t := range shown {
		dir := filepath.Join(v.Home, t)
		if v.Workspace != "" && (dir == v.Workspace || safepath.Within(dir, v.Workspace) || safepath.Within(v.Workspace, dir)) {
			continue
		}
		// Most are not there, which one look tells.
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		p.add(Step{Do: Bind, Source: real, Target: dir, ReadOnly: true, Optional: true})
	}
	return nil
}

// Above lists the directories between a tree's root and a path in it, outer before inner.
func Above(path string) (dirs []string) {
	for i, c := range path {
		if c == '/' {
			dirs = append(dirs, path[:i])
		}
	}
	return dirs
}
