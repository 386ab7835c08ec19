package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
)

// floorPath is the administrator's policy. Only tests have another.
var floorPath = ""

// placesFor are the config files that count in a directory; in "", only the user's and the administrator's.
func placesFor(dir string) config.Places {
	p := config.DefaultPlaces(dir, sandbox.Me().Home)
	if floorPath != "" {
		p.Floor = floorPath
	}
	return p
}

func placesHere() (config.Places, error) {
	here, err := currentDir()
	if err != nil {
		return config.Places{}, err
	}
	return placesFor(here), nil
}

// wordPlaces are where the user's and the administrator's own word is, wherever one is.
func wordPlaces() config.Places { return placesFor("") }

func loadHere() (*config.Loaded, error) {
	places, err := placesHere()
	if err != nil {
		return nil, err
	}
	return load(places)
}

func load(places config.Places) (*config.Loaded, error) {
	l, err := places.Load()
	if err == nil && l == nil {
		return places.Defaults()
	}
	return l, err
}

// configure reads the config files, asks the user to agree to them, and fills in what the flags leave open.
func (s *settings) configure(ctx context.Context) error {
	places, err := placesHere()
	if s.alone || err != nil && s.workspace == sandbox.WorkspaceNone {
		// There is no directory that anything is said about.
		places, err = wordPlaces(), nil
	}
	if err != nil {
		return err
	}
	l, err := load(places)
	if err != nil {
		return err
	}
	if err := s.mode.check(l); err != nil {
		return err
	}
	// A workspace that is refused is refused before the user is asked to agree to anything.
	workspace := cmp.Or(s.workspace, l.Config.Workspace.Mode)
	shown := workspace == sandbox.WorkspaceDirect || workspace == sandbox.WorkspaceCOW || workspace == "auto" && (s.decide == nil || repositoryOf(places.Dir) == "")
	if off := cmp.Or(s.sandbox, l.Config.Sandbox) == modeOff; shown && !off && !s.alone {
		if err := refuseWorkspace(places.Dir, s.force); err != nil {
			return err
		}
	}
	if err := s.agree(ctx, places, l); err != nil {
		return err
	}
	s.conf = l
	s.fill(l.Config)
	publish, in, out := l.Openings()
	s.publish = append(besidesFlags(publish, s.publish), s.publish...)
	s.socketIn, s.socketOut = append(in, s.socketIn...), append(out, s.socketOut...)
	if s.decide == nil && (s.workspace == "" || s.workspace == sandbox.WorkspaceTree) {
		s.workspace = sandbox.WorkspaceDirect // a throw-away has no worktree
	}
	return nil
}

// fill takes from the config what no flag says. The config was checked.
func (s *settings) fill(c *config.Config) {
	s.sandbox = cmp.Or(s.sandbox, c.Sandbox)
	s.isolation = c.Isolation
	if s.workspace == "" && c.Workspace.Mode != "auto" {
		s.workspace = c.Workspace.Mode
	}
	s.memory = cmp.Or(s.memory, c.Limits.Memory)
	s.pids = cmp.Or(s.pids, c.Limits.Pids)
	s.cpus = cmp.Or(s.cpus, c.Limits.CPUs)
	s.openFiles = cmp.Or(s.openFiles, c.Limits.OpenFiles)
	s.keepFree = cmp.Or(s.keepFree, c.Limits.KeepFree)
	if s.timeout == 0 && c.Limits.Timeout != "" {
		s.timeout, _ = time.ParseDuration(c.Limits.Timeout)
	}
	s.nesting = s.nesting || c.Nesting
	s.fromConfig = s.image == "" && c.Image != ""
	s.image = cmp.Or(s.image, c.Image)
	// Who says --net none on the command line means it, rules or not.
	s.offline = s.net == "none"
	s.net = cmp.Or(s.net, c.Network.Mode)
}

// complete adds to a record what no flag can say, and enforces the floor.
func (s *settings) complete(rec *sandbox.Record) (err error) {
	l := s.conf
	if rec.Workspace.Mode != sandbox.WorkspaceNone {
		rec.Profile = l.Profile(".")
	}
	if rec.Daemons, err = l.Daemons(); err != nil {
		return err
	}
	rec.Git = l.Git()
	if rec.Env, rec.EnvFrom, err = l.Variables(); err != nil {
		return err
	}
	mounts, err := l.Mounts(warn, true)
	if err != nil {
		return err
	}
	given, err := l.HomeFiles()
	if err != nil {
		return err
	}
	rec.Mounts = inOrder(slices.Concat(rec.Mounts, mounts, given))
	rec.Caches = l.Caches(rec)
	rec.Masks = l.Masks()
	if rec.Workspace.Mode == sandbox.WorkspaceTree {
		rec.Masks.Prefix = "" // the worktree is of the whole repository
	}
	if err := checkMounts(rec); err != nil {
		return err
	}
	if !s.offline {
		if err := addNetwork(l, &rec.Network); err != nil {
			return err
		}
	}
	if err := floorRepositories(l.Floor, rec, ""); err != nil {
		return err
	}
	return l.Floor.Enforce(rec, defaultEngine().Name(), sandbox.Me().Home)
}

// inOrder sorts mounts by their targets, outer before inner.
func inOrder(list []sandbox.Mount) []sandbox.Mount {
	slices.SortStableFunc(list, func(a, b sandbox.Mount) int { return strings.Compare(a.Target, b.Target) })
	return list
}

// addNetwork adds the files' rules below those of flags, and ports that no flag has.
func addNetwork(l *config.Loaded, n *sandbox.Network) error {
	n.Rules = append(l.Rules(n.Mode), n.Rules...)
	ports, err := l.HostPorts()
	for _, p := range ports {
		if !slices.ContainsFunc(n.HostPorts, func(o sandbox.HostPort) bool { return o.Inside == p.Inside }) {
			n.HostPorts = append(n.HostPorts, p)
		}
	}
	return err
}

// besidesFlags are the ports of the files whose number on this machine no flag has.
func besidesFlags(files, flags []string) []string {
	number := func(text string) string { host, _, _ := strings.Cut(text, ":"); return host }
	return slices.DeleteFunc(files, func(f string) bool {
		return number(f) != "" && slices.ContainsFunc(flags, func(o string) bool { return number(o) == number(f) })
	})
}

func newNetwork() (sandbox.Network, error) {
	l, err := loadHere()
	if err != nil {
		return sandbox.Network{}, err
	}
	var rec sandbox.Record
	err = enforceHere(l, &rec)
	return rec.Network, err
}

// enforceHere adds the network of the config files to a record, and enforces the floor.
func enforceHere(l *config.Loaded, rec *sandbox.Record) (err error) {
	if rec.Network, err = networkFor(l.Config.Network.Mode, nil); err == nil {
		err = addNetwork(l, &rec.Network)
	}
	if err == nil {
		err = floorRepositories(l.Floor, rec, "")
	}
	if err == nil {
		err = l.Floor.Enforce(rec, defaultEngine().Name(), sandbox.Me().Home)
	}
	return err
}

// holdToFloor enforces the floor of today on a sandbox that was made before.
func holdToFloor(sb *sandbox.Sandbox) error {
	if err := guardWord(sb.Workspace, sb.Mounts); err != nil {
		return err
	}
	floor, err := wordPlaces().ReadFloor()
	if err != nil || floor == nil {
		return err
	}
	if err := floorRepositories(floor, &sb.Record, sb.Dir()); err != nil {
		return err
	}
	return floor.Enforce(&sb.Record, defaultEngine().Name(), sandbox.Me().Home)
}

// floorRepositories enforces the floor on a sandbox's repositories. folder is "" for one that is not made yet.
func floorRepositories(floor *config.Floor, rec *sandbox.Record, folder string) error {
	if !floor.Forbids() {
		return nil
	}
	home := sandbox.Me().Home
	var own []string
	if w := rec.Workspace; w.Path != "" && w.Mode != sandbox.WorkspaceTree {
		// Where git cannot be followed, the sandbox gets nothing of it.
		if at, err := rootfs.FindRepository(w.Path); err == nil {
			own = append(own, at.Common)
		}
	}
	if b, err := git.Open(folder); folder != "" && err == nil {
		own = append(own, b.Common)
	}
	for _, common := range own {
		if err := floor.EnforceRepository(common, home, true); err != nil {
			return err
		}
	}
	if folder == "" {
		return nil
	}
	for _, b := range git.Included(folder) {
		if err := floor.EnforceRepository(b.Common, home, false); err != nil {
			return ui.Hint(err, "take it out with 'coffer uninclude %s', or talk to the administrator", b.Include)
		}
	}
	return nil
}

func describeMount(r *sandbox.Record, m sandbox.Mount) string {
	mode := "writable"
	if m.ReadOnly {
		mode = "read-only"
	}
	if m.Copy {
		mode += ", a copy"
	}
	if _, ok := supervisor.Laid(r, m); ok {
		mode = "settings, of which it has its own copy"
	}
	return fmt.Sprintf("%s is %s of the host (%s)", m.Target, m.Source, mode)
}

func warn(what string) {
	fmt.Fprintln(os.Stderr, "coffer: warning:", terminal.Escape(what))
}
