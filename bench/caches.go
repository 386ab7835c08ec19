package main

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// cacheGain is one installation in a throw-away sandbox, from nothing to nothing: with
// empty package caches, and with the user's.
type cacheGain struct {
	Name    string `json:"name"`
	Without series `json:"without"`
	With    series `json:"with"`
}

// Names of the two sides.
const (
	nameWithout = "without caches"
	nameWith    = "with caches"
)

// An installation fetches what a project depends on.
type installation struct {
	name    string
	shown   string
	missing string // why it cannot run here
	// argv is for the project in dir, if there are caches or not.
	argv func(dir string, cached bool) []string
}

// measureCaches times what a project with dependencies gains by the caches of a user who has
// installed them already. Nothing comes from a network, and the sandboxes have none: the
// modules lie in a directory, and the registry for npm answers on the sandbox's own
// loopback, after a while. So for go this is the least that is gained.
func measureCaches(ctx context.Context, l *lab, res *result) error {
	if _, err := os.Stat(l.coffer); err != nil {
		return errNoCoffer
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	without, with := filepath.Join(l.dir, "without"), filepath.Join(l.dir, "with")
	for _, dir := range []string{without, with} {
		if err := goProject(filepath.Join(dir, "go"), filepath.Join(dir, "proxy")); err != nil {
			return err
		}
		if err := npmProject(filepath.Join(dir, "npm"), port); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(with, "coffer.toml"), []byte("caches = [\"go\", \"npm\"]\n"), 0o644); err != nil {
		return err
	}
	if _, err := l.output(ctx, with, l.coffer, "trust", "--yes"); err != nil {
		return err
	}
	list := installations(port)
	if err := l.fill(ctx, list, without, with); err != nil {
		return err
	}
	for _, in := range list {
		run := func(dir string, cached bool) func(context.Context) ([]time.Duration, error) {
			// What is installed lands in a layer that goes with the sandbox.
			argv := append([]string{l.coffer, "run", "--net", "none", "--workspace", "cow", "--"}, in.argv(dir, cached)...)
			return func(ctx context.Context) ([]time.Duration, error) {
				took, err := l.timed(ctx, dir, argv...)
				return []time.Duration{took}, err
			}
		}
		pair, err := race(ctx, l, nameWithout, 1, max(1, l.rounds/coldShare), []contender{
			{name: nameWithout, command: "coffer run -- " + in.shown, missing: in.missing, sample: run(without, false)},
			{name: nameWith, command: "coffer run -- " + in.shown, missing: in.missing, sample: run(with, true)},
		})
		if err != nil {
			return err
		}
		res.Caches = append(res.Caches, cacheGain{Name: in.name, Without: pair[0], With: pair[1]})
		fmt.Printf("\n%s\n", in.name)
		printSeries(pair, nameWithout)
	}
	return nil
}

func installations(port int) []installation {
	gocmd := func(args ...string) func(string, bool) []string {
		return func(dir string, _ bool) []string {
			env := []string{"env", "GOPROXY=file://" + filepath.Join(dir, "proxy"), "GOSUMDB=off", "GOTOOLCHAIN=local",
				"GOENV=off", "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0"}
			return append(append(env, "go", "-C", "go"), args...)
		}
	}
	npm := func(_ string, cached bool) []string {
		asked := npmPackages
		if cached {
			asked = 0
		}
		return []string{"node", "npm/registry.js", strconv.Itoa(port), strconv.Itoa(asked), strconv.Itoa(npmDelay)}
	}
	return []installation{
		{fmt.Sprintf("go mod download, %d modules", goModules), "go mod download", lacking("go"), gocmd("mod", "download")},
		{fmt.Sprintf("go build, %d modules", goModules), "go build", lacking("go"), gocmd("build", "-buildvcs=false", "-o", "/dev/null", ".")},
		{fmt.Sprintf("npm ci, %d packages, %d ms away", npmPackages, npmDelay), "npm ci", lacking("npm", "node"), npm},
	}
}

// lacking is why an installation cannot run on this machine, if it cannot.
func lacking(programs ...string) string {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return p + " is not installed"
		}
	}
	return ""
}

// fill installs everything once outside, as the user would have, some time ago: go touches
// what it finds in its cache and has not used for an hour, which a layer has to copy.
func (l *lab) fill(ctx context.Context, list []installation, dirs ...string) error {
	for i, dir := range dirs {
		for _, in := range list {
			if in.missing != "" {
				continue
			}
			if _, err := l.output(ctx, dir, in.argv(dir, i > 0)...); err != nil {
				return fmt.Errorf("%s outside: %w", in.shown, err)
			}
		}
		// The sandbox is to install it, and not to find it in its workspace.
		if err := os.RemoveAll(filepath.Join(dir, "npm", "node_modules")); err != nil {
			return err
		}
	}
	old := time.Now().Add(-24 * time.Hour)
	return filepath.WalkDir(filepath.Join(l.home, ".cache"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, old, old)
	})
}

// freePort is a port that nobody has on this machine; sandboxes have all of them.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (r *result) judgeCaches() {
	if len(r.Caches) == 0 {
		r.unmeasured("package caches", "below "+nameWithout)
	}
	for i := range r.Caches {
		c := &r.Caches[i]
		r.ratioBar(c.Name+", p50", nameWithout, 1, &c.With, &c.Without, func(s *series) float64 { return s.P50 })
	}
}
