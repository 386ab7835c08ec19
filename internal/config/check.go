package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/image"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/secret"
	"github.com/pelletier/go-toml/v2"
)

// decodeMerged decodes and checks the merged tree of files that were checked each.
func decodeMerged(tree *node) (*Config, Problems) {
	var c Config
	var p printer
	p.table(tree, "")
	if err := toml.Unmarshal([]byte(p.String()), &c); err != nil {
		return nil, Problems{decodeProblem("the merged config", err)}
	}
	return &c, check(&c, tree, true)
}

// check finds mistakes in values. A tree of one file may lack what another file has; the merged
// one must be complete.
func check(c *Config, tree *node, complete bool) Problems {
	k := checker{c, tree, complete, nil}
	k.image()
	k.limits()
	k.env()
	k.masks()
	k.mounts()
	k.network()
	k.hooks()
	k.home()
	k.agents()
	k.jail()
	k.git()
	return k.problems
}

type checker struct {
	*Config
	tree     *node
	complete bool
	problems Problems
}

// at notes a mistake of the value at a path, or of the nearest thing above it.
func (k *checker) at(path []any, err error) {
	if err == nil {
		return
	}
	n := k.tree
	shown := ""
	for _, p := range path {
		if next := n.get(p); next != nil {
			n = next
		}
		if name, ok := p.(string); ok {
			shown = join(shown, name)
		}
	}
	k.problems.add(n.at, "%s: %s", shown, err)
}

func path(p ...any) []any { return p }

func (k *checker) image() {
	if k.tree.get("image") != nil && k.Image != NoImage {
		_, err := image.Parse(k.Image)
		k.at(path("image"), err)
	}
}

func (k *checker) limits() {
	l := k.Limits
	for name, check := range map[string]func() error{
		"memory":     func() error { _, err := limits.ParseMemory(l.Memory); return err },
		"pids":       func() error { return limits.CheckPids(l.Pids) },
		"open_files": func() error { return limits.CheckOpenFiles(l.OpenFiles) },
		"cpus":       func() error { return limits.CheckCPUs(l.CPUs) },
		"keep_free":  func() error { _, err := limits.ParseKeepFree(l.KeepFree); return err },
		"timeout":    func() error { _, err := parseTime(l.Timeout); return err },
	} {
		if k.tree.get("limits", name) != nil {
			k.at(path("limits", name), check())
		}
	}
}

func parseTime(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is not a time: want something like 90s, 30m or 2h", quote(s))
	case d <= 0:
		return 0, errors.New("must be more than 0")
	}
	return d, nil
}

func (k *checker) env() {
	for i, name := range k.Env.Pass {
		k.at(path("env", "pass", i), checkVariable(strings.TrimSuffix(name, "*")))
	}
	for _, name := range slices.Sorted(maps.Keys(k.Env.Set)) {
		err := checkVariable(name)
		if err == nil {
			err = checkTemplate(k.Env.Set[name])
		}
		if err == nil && strings.ContainsRune(k.Env.Set[name], 0) {
			err = errors.New("has a NUL in it")
		}
		k.at(path("env", "set", name), err)
	}
}

// checkTemplate wants one that can be filled in. What opens the vault stays outside.
func checkTemplate(text string) error {
	refs, err := secret.Mentions(text)
	if slices.Contains(refs, secret.Ref{Name: secret.Variable}) {
		err = fmt.Errorf("%s opens your vault, and goes into no sandbox", secret.Variable)
	}
	return err
}

// checkVariable wants a name that programs can have. Those of coffer itself tell them
// where they are, and must not lie.
func checkVariable(name string) error {
	switch {
	case !secret.IsName(name):
		return fmt.Errorf("%s is not the name of a variable", quote(name))
	case strings.HasPrefix(name, "COFFER_"):
		return errors.New("variables that begin with COFFER_ are coffer's own")
	}
	return nil
}

func (k *checker) mounts() {
	for _, name := range slices.Sorted(maps.Keys(k.Mounts)) {
		m := k.Mounts[name]
		if !isEntryName(name) {
			k.at(path("mounts", name), errors.New("a name has letters, digits, - and _ only, 60 at most"))
		}
		if m.Source != "" || k.complete {
			k.at(path("mounts", name, "source"), checkSource(m.Source))
		}
		if m.Target != "" || k.complete {
			k.at(path("mounts", name, "target"), checkTarget(m.Target))
		}
	}
}

// isEntryName is for names that are shown to people.
func isEntryName(s string) bool {
	return s != "" && len(s) <= 60 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func (k *checker) network() {
	n := k.Network
	for i, p := range n.HostPorts {
		_, err := p.Parse()
		k.at(path("network", "host_ports", i), err)
	}
	for i, p := range n.Publish {
		if _, err := Port(strings.TrimPrefix(string(p), ":")).Parse(); err != nil || strings.Count(string(p), ":") > 1 {
			k.at(path("network", "publish", i), fmt.Errorf("%s is not a port, nor two with a colon between, nor one after a colon", quote(string(p))))
		}
	}
	for i, s := range n.SocketIn {
		host, _, _ := strings.Cut(s, ":")
		k.at(path("network", "socket_in", i), checkPlace(host))
	}
	for i, s := range n.SocketOut {
		_, host, _ := strings.Cut(s, ":")
		k.at(path("network", "socket_out", i), checkPlace(host))
	}
	names := map[string]bool{}
	for i, r := range n.Rules {
		if r.Name != "" && names[r.Name] {
			k.at(path("network", "rules", i, "name"), fmt.Errorf("there is another rule named %s in the file", quote(r.Name)))
		}
		names[r.Name] = true
	}
	_, err := policy.Compile(policy.Source{Default: n.Default, Groups: n.Groups, Rules: n.Rules})
	var problems policy.Problems
	if !errors.As(err, &problems) {
		return
	}
	for _, p := range problems {
		where := path("network")
		if p.Rule >= 0 {
			r := n.Rules[p.Rule]
			if !k.complete && r.Name != "" && len(r.Allow)+len(r.Deny)+len(r.Ask) == 0 {
				continue // it is about a rule of another file
			}
			where = append(where, "rules", p.Rule)
		}
		where = append(where, p.Field)
		if p.Item >= 0 {
			where = append(where, p.Item)
		}
		k.at(where, errors.New(p.Msg))
	}
}

// UnmarshalText takes a number for a port.
func (p *Port) UnmarshalText(text []byte) error {
	*p = Port(strconv.FormatInt(wholeNumber(string(text)), 10))
	return nil
}

// UnmarshalText takes a number for a port.
func (r *Ready) UnmarshalText(text []byte) error { return (*Port)(r).UnmarshalText(text) }

// Parse reads P, or INSIDE:OUTSIDE.
func (p Port) Parse() (h sandbox.HostPort, err error) {
	inside, outside, both := strings.Cut(string(p), ":")
	if !both {
		outside = inside
	}
	in, err1 := strconv.ParseUint(inside, 10, 16)
	out, err2 := strconv.ParseUint(outside, 10, 16)
	if err1 != nil || err2 != nil || in == 0 || out == 0 {
		return h, fmt.Errorf("%s is not a port, nor two with a colon between", quote(string(p)))
	}
	return sandbox.HostPort{Inside: uint16(in), Outside: uint16(out)}, nil
}

func (k *checker) git() {
	for i, file := range k.Git.Copy {
		if file == "" || filepath.IsAbs(file) || filepath.Clean(file) != file || file == "." || strings.HasPrefix(file, "../") || strings.ContainsAny(file, "\x00*?[") ||
			slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool { return strings.EqualFold(part, ".git") }) {
			k.at(path("git", "copy", i), errors.New("want the path of a file in the repository"))
		}
	}
	for i, p := range k.Git.PushPatterns {
		if p == "" || strings.HasPrefix(p, "-") || strings.HasPrefix(p, "refs/") || strings.ContainsAny(p, " \x00~^:?[\\") || strings.Contains(p, "..") {
			k.at(path("git", "push_patterns", i), fmt.Errorf("%s cannot match the name of a branch", quote(p)))
		}
	}
}
