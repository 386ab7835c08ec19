package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/jail"
	"github.com/cofferhq/coffer/internal/testbed"
)

// On a terminal, only the whole word runs a program without a sandbox.
func TestOffOnTerminal(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		made := filepath.Join(b.Work, "made")
		run := func() *screen {
			return onScreen(t, 24, 80, b.Command("run", "--sandbox=off", "--", "sh", "-c", "touch made; read x; echo got $x; exit 3"))
		}
		for _, word := range []string{"y", "", "no", "YES"} {
			s := run()
			s.see("without a sandbox: ")
			s.typeIn(word + "\n")
			s.end(125)
			if _, err := os.Stat(made); err == nil {
				t.Fatalf("%q was taken for a yes", word)
			}
		}
		s := run()
		s.see("without a sandbox: ")
		s.typeIn("\x03")
		s.end(130)
		s = run()
		s.see("without a sandbox: ")
		s.typeIn("yes\nhello\n")
		s.see("got hello")
		s.end(3)
	})
}

// An administrator who has said anything is not passed by, neither without a sandbox nor
// in a jail that could not keep it.
func TestFloorAndModes(t *testing.T) {
	if os.Getuid() != 0 && !testbed.Apart(t) {
		return
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config")) // by whatever home another test began
	t.Setenv("XDG_STATE_HOME", "")
	work := filepath.Join(home, "work")
	if err := os.MkdirAll(filepath.Join(work, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	for _, c := range []struct {
		floor     string
		jail, off string // what refuses them
		closed    bool   // a jail without network that is private
	}{
		{floor: "isolation = \"jail\"", off: "there would be no sandbox"},
		{floor: "isolation = \"container\"", jail: "wants a container at least", off: "there would be no sandbox", closed: true},
		{floor: "[network]\nmax = \"standard\"", jail: "the whole network", off: "no sandbox"},
		{floor: "[network]\nmax = \"open\"", off: "no sandbox"},
		{floor: "[network]\ndeny = [\"example.com\"]", jail: "the whole network", off: "no sandbox"},
		{floor: "[network]\nforbid_host_ports = true", jail: "the whole network", off: "no sandbox"},
		{floor: "[mounts]\nforbid = [\"/srv\"]", jail: "administrator", off: "no sandbox"},
		{floor: "[mounts]\nforbid = [\"~/work\"]", jail: "administrator", off: "no sandbox", closed: true},
		{floor: ""},
	} {
		withFloor(t, c.floor)
		check := func(what string, err error, want string) {
			t.Helper()
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%q: %s: %v, want %q", c.floor, what, err, want)
			}
		}
		var j jailSettings
		j.Context, j.Home, j.net = work, home, jail.NetHost
		if err := j.configure(); err != nil {
			t.Fatal(err)
		}
		check("jail", j.holdToFloor(), c.jail)
		j.Net, j.Private = jail.NetNone, true
		want := ""
		if c.closed {
			want = c.jail
		}
		check("closed jail", j.holdToFloor(), want)

		s := settings{mode: mode{sandbox: modeOff, yes: true}}
		_, err := s.record(t.Context(), []string{"true"})
		if !errors.Is(err, errOff) {
			t.Fatalf("%q: %v", c.floor, err)
		}
		// Without a word of the administrator there must be another reason to fail,
		// or this test would turn into the program.
		ctx, cancel := context.WithCancel(t.Context())
		err = s.runOff(&listener{ctx: ctx}, []string{"/no/such/program"})
		cancel()
		if c.off == "" {
			c.off = "command not found"
		}
		check("off", err, c.off)
		// The same when it is the user's config that switches it off.
		own := filepath.Join(home, ".config", "coffer", "config.toml")
		if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(own, []byte("sandbox = \"off\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s = settings{mode: mode{yes: true}}
		if _, err = s.record(t.Context(), []string{"true"}); errors.Is(err, errOff) {
			ctx, cancel := context.WithCancel(t.Context())
			err = s.runOff(&listener{ctx: ctx}, []string{"/no/such/program"})
			cancel()
		}
		check("off by config", err, c.off)
		if err := os.Remove(own); err != nil {
			t.Fatal(err)
		}
		j.Argv, j.mode = []string{"/no/such/program"}, mode{sandbox: modeOff, yes: true}
		check("jail off", j.becomeOff(t.Context(), j.floor, j.Argv, j.env), c.off)
	}
}
