package engine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
)

// namespaceFix finds the switch by which distributions refuse user namespaces.
func namespaceFix() string {
	for _, s := range []struct{ file, bad, fix string }{
		{"/proc/sys/user/max_user_namespaces", "0", "allow user namespaces: sudo sysctl user.max_user_namespaces=28633"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "allow coffer to use user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 (or give coffer an AppArmor profile with the rule 'userns,')"},
	} {
		if b, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(b)) == s.bad {
			return s.fix
		}
	}
	return ""
}

// Probe boots an empty sandbox and looks at what surrounds it.
func (e Container) Probe(ctx context.Context) Report {
	r := Report{}
	boot := Check{What: "namespaces, mounts, a fresh /proc", Needed: true, OK: true, Detail: "a sandbox was booted"}
	if _, err := e.trial(ctx, false); err != nil {
		boot.OK, boot.Detail, boot.Fix = false, err.Error(), namespaceFix()
		switch {
		case inSandbox():
			boot.Fix = insideFix
		case boot.Fix == "":
			boot.Fix = "coffer needs Linux 5.12 or newer and a host that lets users make namespaces; inside Docker, start the outer container with --privileged or with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
		}
	}
	r.Usable = boot.OK
	r.Checks = []Check{boot}
	if boot.OK {
		r.Checks = append(r.Checks, e.networkCheck(ctx))
	}
	r.Checks = append(append(r.Checks, landlockCheck(), idsCheck()), limitChecks()...)
	return r
}

func (e Container) networkCheck(ctx context.Context) Check {
	c := Check{What: "the network of a sandbox", OK: true}
	const fix = "load the kernel modules nf_tables and nft_tproxy: sudo modprobe -a nf_tables nft_tproxy"
	switch kind, err := e.trial(ctx, true); {
	case err != nil:
		c.OK, c.Detail, c.Fix = false, err.Error()+"; only --net none works", fix
	case kind == guest.PacketLink:
		c.Detail, c.Fix = "by a TCP/IP stack of coffer's own, which is slower than the kernel's", fix
	default:
		c.Detail = "by packet rules of the kernel, in the sandbox's own namespace"
	}
	return c
}

// trial boots a sandbox without a workspace and runs nothing in it but the agent. It
// says what kind of link it has.
func (e Container) trial(ctx context.Context, network bool) (link string, err error) {
	dir, err := trialDir()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, d := range []string{"home", "layers"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	plan, err := rootfs.HostView(rootfs.View{Sandbox: dir, Home: "/home/probe", Hostname: "probe", Program: self, Volatile: true})
	if err != nil {
		return "", err
	}
	booted, err := e.Boot(ctx, &Machine{Hostname: "probe", Root: plan, Network: network})
	if err != nil {
		return "", err
	}
	i := booted.(*instance)
	if i.link != nil {
		i.link.Close()
	}
	session, err := wire.NewClient(i.Control())
	if err == nil {
		session.Close()
	}
	i.Kill()
	<-i.Done()
	return i.linkKind, err
}

// trialDir makes a temporary directory. It first removes those that killed trials left: no
// trial takes minutes.
func trialDir() (string, error) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), "coffer-probe-*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() && time.Since(info.ModTime()) > 5*time.Minute {
			os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp("", "coffer-probe-")
}

// Missing are the parts of the wall that a sandbox would be booted without on this host.
func Missing() (list []Check) {
	if c := landlockCheck(); !c.OK {
		list = append(list, c)
	}
	return list
}

func landlockCheck() Check {
	c := Check{What: "Landlock, the second wall around files"}
	if abi := confine.LandlockABI(); abi > 0 {
		c.OK, c.Detail = true, fmt.Sprintf("version %d", abi)
		return c
	}
	c.Detail = "this kernel has none; sandboxes hold by their mounts alone"
	c.Fix = "boot a kernel from 5.13 on with 'landlock' in the lsm= list"
	return c
}

func idsCheck() Check {
	c := Check{What: "ids inside a sandbox"}
	switch who := guest.Whoever(); {
	case who.Shift:
		c.OK, c.Detail = true, fmt.Sprintf("%d, mapped to unprivileged ids from %d", who.Count, guest.Foreign)
	case who.Helper:
		c.OK, c.Detail = true, fmt.Sprintf("%d, from /etc/subuid", who.Count)
	default:
		c.Detail = "one: your own; root inside is the same id, and nobody can become another account"
		c.Fix = fmt.Sprintf("sudo apt-get install uidmap && sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s", cmp.Or(os.Getenv("USER"), "$USER"))
	}
	return c
}

func limitChecks() []Check {
	h := limits.Probe()
	var all []Check
	for _, l := range []struct {
		name string
		limits.Support
	}{{"memory", h.Memory}, {"processes", h.Pids}, {"cpus", h.CPUs}, {"open files", h.OpenFiles}} {
		c := Check{What: "limit on " + l.name, OK: l.Available(), Detail: "by " + l.Mechanism}
		if !c.OK {
			c.Detail, c.Fix = l.Reason, l.Fix
		}
		all = append(all, c)
	}
	return all
}
