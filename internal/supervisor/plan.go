package supervisor

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/intercept"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/origin"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// plan decides what the sandbox sees.
func (s *Supervisor) plan(ctx context.Context) (*rootfs.Plan, error) {
	sb, me := s.Sandbox, sandbox.Me()
	for _, dir := range []string{sb.Home(), sb.Layers()} {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return nil, err
		}
	}
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(sb.Dir())
	if err != nil {
		return nil, err
	}
	data := filepath.Dir(filepath.Dir(dir))
	hide := []string{data}
	if sb.Workspace.Mode == sandbox.WorkspaceTree {
		hide = nil // the workspace is in the store, and all that is seen of it
	}
	from, err := openImage(sb, data)
	if err != nil {
		return nil, err
	}
	includes := s.commits.openIncluded(sb, s.notices.tell)
	private, err := s.reserveGit()
	if err != nil {
		return nil, err
	}
	bridged, err := s.commits.openOwn(ctx, sb)
	if err != nil {
		return nil, err
	}
	var authority []byte
	if s.authority, err = openAuthority(sb); err != nil {
		return nil, err
	} else if s.authority != nil {
		authority = s.authority.PEM()
	}
	gitConfig := ""
	if sb.Workspace.Path != "" {
		gitConfig = git.SystemConfig(ctx, filepath.Join("/", from.tree, "etc"), !sb.Git.NoSettings)
	}
	resolver := ""
	if !sb.Network.None() {
		resolver = "nameserver " + link.Resolver4.String() + "\n"
	}
	mounts, err := showMounts(sb, dir)
	if err != nil {
		return nil, err
	}
	masks, err := s.hidden.Scan(ctx, s.commits.includedBridges())
	if err != nil {
		return nil, err
	}
	var caches []rootfs.Cache
	for _, c := range sb.Caches {
		caches = append(caches, rootfs.Cache(c))
	}
	return rootfs.HostView(rootfs.View{
		Authority: authority, Memory: sb.Limits.Memory, CPUs: sb.Limits.CPUs,
		Mounts: mounts, Caches: caches, Profile: rootfs.ProfileText(sb.Workspace.Path, sb.Profile),
		Sandbox: dir, Image: from.tree, Home: me.Home, Workspace: sb.Workspace.Path, Mode: sb.Workspace.Mode,
		Hostname: sb.Name, Passwd: from.passwd, Group: from.group, Login: from.login, Resolver: resolver, GitConfig: gitConfig, Program: program,
		Hide: hide, Git: bridged, Volatile: sb.Ephemeral, Nesting: sb.Nesting, PrivateGit: private,
		Includes: includes, Masks: masks, Programs: shims(sb, s.commits.all()),
	})
}

// openAuthority is the sandbox's certificate authority, nil where no rule looks into TLS.
func openAuthority(sb *sandbox.Sandbox) (*intercept.Authority, error) {
	if !sb.Network.Inspects() {
		return nil, nil
	}
	return intercept.OpenAuthority(sb.Authority())
}

// serveHost answers what programs inside ask of coffer.internal.
func (s *Supervisor) serveHost() http.Handler {
	h := origin.Host{Sandbox: s.Sandbox, Log: s.audit.Add, Tell: s.notices.tell,
		Consent: func(ctx context.Context, q network.Question, say func(string)) error {
			return s.network.Consent(ctx, q, say)
		}}
	return origin.Handler(h, func() (all []origin.Served) {
		for _, r := range s.commits.all() {
			all = append(all, origin.Served{Bridge: r.bridge, Name: r.name, Sync: func(patience time.Duration) error {
				return s.commits.syncWithin(r, patience).err
			}})
		}
		return all
	})
}

// shims are the programs inside that ask the host. A gh of the system's is covered: it could not
// log in.
func shims(sb *sandbox.Sandbox, all []*repository) []string {
	remote := func(r *repository) bool { return r.bridge.State.Upstream }
	if sb.Network.None() || sb.Git.GH == "deny" && sb.Git.GHRead == "deny" || !slices.ContainsFunc(all, remote) {
		return nil
	}
	return []string{guest.GHName}
}
