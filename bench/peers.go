package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The peers run `true` and nothing else, with networking off wherever that is
// a choice, so that none of them sends a packet and none pays for plumbing
// that the others leave out. Where there is a faster way to start one (codex
// without its node wrapper, podman without conmon's log), it gets the faster
// way.
func (l *lab) peerContenders(ctx context.Context) []contender {
	bwrap := []string{"bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"}
	return []contender{
		l.peer(ctx, "unshare", []string{"unshare", "-Urnmpf", "true"}),
		l.peer(ctx, nameBwrap, bwrap),
		l.landrun(ctx),
		l.runc(ctx),
		l.podman(ctx),
		l.codex(ctx),
		l.srt(ctx),
	}
}

// peer is a contender whose program is looked up on the PATH.
func (l *lab) peer(ctx context.Context, name string, argv []string) contender {
	c := contender{
		name:    name,
		command: strings.Join(argv, " "),
		sample:  l.process(filepath.Join(l.dir, "small"), argv...),
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		c.missing = "not installed"
		return c
	}
	c.version = l.version(ctx, argv[0], "--version")
	return c
}

// version is the first line a program says about itself, or nothing.
func (l *lab) version(ctx context.Context, argv ...string) string {
	out, err := l.output(ctx, l.dir, argv...)
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return l.neutral(strings.ToValidUTF8(string(line), "?"))
}

// landrun gets what a jail gets: the whole machine to read, two places to write. Where it is
// not to be had, a program of ours stands in for it, and the row says so.
func (l *lab) landrun(ctx context.Context) contender {
	args := []string{"--rox", "/", "--rw", "/tmp", "--rw", filepath.Join(l.dir, "small"), "true"}
	for _, row := range []string{nameLandrun, nameStandIn} {
		name := strings.Replace(row, " stand-in", "-standin", 1)
		program := filepath.Join(l.peers, "bin", name)
		if _, err := os.Stat(program); err != nil {
			if program, err = exec.LookPath(name); err != nil {
				continue
			}
		}
		c := l.peer(ctx, row, append([]string{program}, args...))
		c.command = name + " --rox / --rw /tmp --rw DIR true"
		return c
	}
	return l.peer(ctx, nameLandrun, append([]string{"landrun"}, args...))
}

// rootfs is a root file system for the container peers with one program in it,
// the no-op Go binary under the name true: smaller than any image could be.
func (l *lab) rootfs() (string, error) {
	root := filepath.Join(l.dir, "rootfs")
	for _, d := range []string{"bin", "dev", "proc", "sys", "run", "tmp", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return "", err
		}
	}
	data, err := os.ReadFile(l.noop)
	if err != nil {
		return "", err
	}
	return root, os.WriteFile(filepath.Join(root, "bin/true"), data, 0o755)
}

func (l *lab) runc(ctx context.Context) contender {
	bundle := filepath.Join(l.dir, "bundle")
	state := filepath.Join(l.runtime, "runc-state")
	c := l.peer(ctx, "runc", []string{"runc", "run", "--bundle", "BUNDLE", "ID"})
	if c.missing != "" {
		return c
	}
	if err := l.runcBundle(ctx, bundle); err != nil {
		c.missing = l.neutral("no bundle: " + err.Error())
		return c
	}
	// Every container needs a name of its own: deleting the old one may still
	// be under way when the next starts.
	n := 0
	c.sample = func(ctx context.Context) ([]time.Duration, error) {
		n++
		took, err := l.timed(ctx, l.dir, "runc", "--root", state, "run", "--bundle", bundle, fmt.Sprintf("bench%d", n))
		return []time.Duration{took}, err
	}
	return c
}

// runcBundle writes runc's own default configuration, with three changes: no
// terminal, our program, and a network namespace, which the rootless default
// leaves out and every other contender has.
func (l *lab) runcBundle(ctx context.Context, bundle string) error {
	root, err := l.rootfs()
	if err != nil {
		return err
	}
	if err := os.Mkdir(bundle, 0o755); err != nil {
		return err
	}
	spec := []string{"runc", "spec"}
	if os.Geteuid() != 0 {
		spec = append(spec, "--rootless")
	}
	if _, err := l.output(ctx, bundle, spec...); err != nil {
		return err
	}
	file := filepath.Join(bundle, "config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config struct {
		Process map[string]any `json:"process"`
		Linux   map[string]any `json:"linux"`
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return err
	}
	config.Process["terminal"] = false
	config.Process["args"] = []string{"/bin/true"}
	if !bytes.Contains(text, []byte(`"network"`)) {
		namespaces, _ := config.Linux["namespaces"].([]any)
		config.Linux["namespaces"] = append(namespaces, map[string]string{"type": "network"})
	}
	whole["process"], whole["linux"] = config.Process, config.Linux
	whole["root"] = map[string]any{"path": root, "readonly": true}
	if text, err = json.Marshal(whole); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func (l *lab) podman(ctx context.Context) contender {
	root := filepath.Join(l.dir, "rootfs")
	argv := []string{
		"podman", "--root", filepath.Join(l.dir, "podman"), "--runroot", filepath.Join(l.runtime, "podman"),
		"--cgroup-manager=cgroupfs", "--events-backend=none",
		"run", "--rm", "--network=none", "--log-driver=none",
		// Podman asks for limits above the caller's own, which a root without
		// CAP_SYS_RESOURCE may not have.
		"--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
		"--rootfs", root, "/bin/true",
	}
	c := l.peer(ctx, "podman", argv)
	c.command = "podman run --rm --network=none --log-driver=none --rootfs ROOTFS /bin/true"
	if c.missing == "" {
		if _, err := l.rootfs(); err != nil {
			c.missing = l.neutral("no root file system: " + err.Error())
		}
	}
	return c
}

// codex prefers the native program inside the npm package: the node script
// around it would add node's own start to the time.
func (l *lab) codex(ctx context.Context) contender {
	program := "codex"
	found, _ := filepath.Glob(filepath.Join(l.peers, "node_modules/@openai/codex*/vendor/*/bin/codex"))
	if len(found) > 0 {
		program = found[0]
	}
	c := l.peer(ctx, "codex", []string{program, "sandbox", "--", "true"})
	c.command = "codex sandbox -- true"
	return c
}

func (l *lab) srt(ctx context.Context) contender {
	program := filepath.Join(l.peers, "node_modules/.bin/srt")
	if _, err := os.Stat(program); err != nil {
		program = "srt"
	}
	c := l.peer(ctx, "srt", []string{program, "true"})
	c.command = "srt true"
	return c
}
