package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/quick/knock"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestQuickParse compares the two parsers: what the quick one takes, it takes as the real
// one does, with no flag set but -m.
func TestQuickParse(t *testing.T) {
	words := []string{"exec", "x", "run", "-m", "--match", "-mweb", "--match=web", "web", "", "--", "-", "-x", "--root",
		"--create", "-e", "A=b", "-d", "--help", "-h", "help", "true", "a b", "--version", "__complete"}
	taken := 0
	for range 20_000 {
		argv := []string{"exec"}
		if rand.IntN(4) == 0 {
			argv[0] = words[rand.IntN(len(words))]
		}
		for range rand.IntN(6) {
			argv = append(argv, words[rand.IntN(len(words))])
		}
		got, ok := knock.Parse(append([]string{"coffer"}, argv...))
		if !ok {
			continue
		}
		taken++
		want, err := parseSlowly(argv)
		if err != nil || got.Match != want.Match || !slices.Equal(got.Command, want.Command) {
			t.Fatalf("%q: quick %+v, slow %+v, %v", argv, got, want, err)
		}
	}
	if taken < 500 {
		t.Errorf("only %d were taken", taken)
	}
	for _, argv := range []string{"coffer exec true", "coffer x true", "coffer exec -m web true", "coffer exec -m web -- true -m x", "/usr/bin/coffer exec -- true"} {
		if _, ok := knock.Parse(strings.Fields(argv)); !ok {
			t.Errorf("%q was not taken", argv)
		}
	}
}

// parseSlowly is what cobra makes of a command line that is an exec.
func parseSlowly(argv []string) (a knock.Args, err error) {
	root := rootFor(first(argv))
	for _, c := range root.Commands() {
		if c.Name() != "exec" {
			continue
		}
		c.RunE = func(c *cobra.Command, args []string) error {
			a.Command = args
			c.Flags().Visit(func(f *pflag.Flag) {
				if f.Name == "match" {
					a.Match = f.Value.String()
				} else {
					err = usagef("--%s is set", f.Name)
				}
			})
			return nil
		}
	}
	root.SetArgs(argv)
	root.SetOut(nil)
	if e := root.Execute(); e != nil {
		err = e
	}
	return a, err
}

// By its other names the program is never in a hurry.
func TestQuickLeavesOtherNames(t *testing.T) {
	for _, name := range []string{guest.Name, guest.RootName, guest.LeadName, guest.SudoName, guest.GHName, purgeName} {
		for _, argv := range [][]string{{name, "exec", "--", "true"}, {"/x/" + name, "exec", "true"}} {
			if a, ok := knock.Parse(argv); ok {
				t.Errorf("%q was taken as %+v", argv, a)
			}
		}
	}
}

// TestQuickIsLight sees to it that nothing heavy is set up before an exec, nor before
// the guest agent.
func TestQuickIsLight(t *testing.T) {
	unicodes := []string{"strings", "bytes", "reflect", "golang.org"} // all that need package unicode
	for pkg, heavy := range map[string][]string{
		"internal/quick": {"net", "crypto", "regexp", "text/template", "github.com/spf13", "github.com/hashicorp", "gvisor.dev",
			"github.com/cofferhq/coffer/internal/engine", "github.com/cofferhq/coffer/internal/guest/wire/mux"},
		"internal/quick/knock": append(unicodes, "os", "io"),
		"internal/guest/birth": unicodes,
		"internal/guest": {"net/http", "regexp", "text/template", "github.com/spf13", "gvisor.dev",
			"github.com/cofferhq/coffer/internal/engine", "github.com/cofferhq/coffer/internal/policy"},
	} {
		for _, d := range dependencies(t, pkg) {
			for _, h := range heavy {
				if d == h || strings.HasPrefix(d, h+"/") {
					t.Errorf("%s needs %s", pkg, d)
				}
			}
		}
	}
}

// TestInitialisationIsLight sees to it that our packages leave until it is needed what
// takes time to make, expressions and tables: every command would wait for it.
func TestInitialisationIsLight(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run=^$")
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := 0
	for l := range strings.Lines(string(out)) {
		// init PACKAGE @TIME ms, TIME ms clock, BYTES bytes, N allocs
		var name string
		var at, clock float64
		var bytes int
		if n, _ := fmt.Sscanf(l, "init %s @%g ms, %g ms clock, %d bytes", &name, &at, &clock, &bytes); n != 4 {
			continue
		}
		if ours := "github.com/cofferhq/coffer/"; strings.HasPrefix(name, ours) {
			if seen++; bytes > 20<<10 {
				t.Errorf("the initialisation of %s allocates %d bytes", name, bytes)
			}
		}
	}
	if seen == 0 {
		t.Fatalf("no initialisation was seen: %s", out)
	}
}

// dependencies are the packages that are initialised before one of ours.
func dependencies(t *testing.T, pkg string) []string {
	out, err := exec.Command("go", "list", "-deps", "../../"+pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "syscall") {
		t.Fatalf("these are no dependencies: %q", deps)
	}
	return deps
}
