package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// On a terminal: the first time one chooses the agent, which is remembered; then a
// sandbox to go on with, by arrows or letters; and the agent has the terminal to itself.
func TestAIOnTerminal(t *testing.T) {
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		write := func(file, text string, mode os.FileMode) {
			t.Helper()
			file = filepath.Join(b.Home, file)
			for _, err := range []error{
				os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), mode),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		write(".local/bin/mine", `#!/bin/sh
printf 'args(%s) size(%s)\n' "$*" "$(stty size)"
mkdir -p ~/.mine; touch ~/.mine/talk
read -r line; echo "heard $line"
`, 0o755)
		const config = "# mine\n[agents.absent]\n[agents.mine]\nresume = [\"--continue\"]\nconversation = \".mine/talk\"\n"
		write(".config/coffer/config.toml", config, 0o644)
		own(t, b)

		remembered := func(want string) {
			t.Helper()
			data, err := os.ReadFile(filepath.Join(b.Home, ".config/coffer/config.toml"))
			if err != nil || string(data) != config+want {
				t.Errorf("the config is now %q, %v", data, err)
			}
		}
		s := onScreen(t, 24, 100, b.Command("ai"))
		s.see("Which agent shall be the default?")
		s.typeIn("absen\r")
		s.end(125)
		remembered("") // it is not there

		s = onScreen(t, 24, 100, b.Command("ai"))
		s.see("Which agent shall be the default?")
		s.typeIn("\x1b[Bmine\r")
		s.see("coffer: mine in sandbox ")
		s.see("args() size(24 100)")
		s.see("\x1b]2;mine: ")
		s.typeIn("hello\r")
		s.see("heard hello")
		s.see("go on with 'coffer ai -m ")
		s.end(0)
		remembered("\n[ai]\nagent = \"mine\"\n")

		if out, err := b.Command("ai", "--name", "other", "--headless", "x").CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
		s = onScreen(t, 24, 100, b.Command("ai"))
		s.see("Continue in which sandbox?")
		s.see("a new sandbox")
		s.typeIn("othe\r")
		s.see("args(--continue)")
		s.typeIn("\r")
		s.end(0)
		s = onScreen(t, 24, 100, b.Command("ai"))
		s.see("Continue in which sandbox?")
		s.typeIn("\x1b")
		s.end(130)
		if !s.cmd.ProcessState.Exited() {
			t.Errorf("Escape: %v, want an exit code", s.cmd.ProcessState)
		}
		if strings.Contains(s.text(), "args(") {
			t.Error("something was started")
		}
	})
}

// Ctrl-C at the list ends the loop around it, as a signal ends who shows it; and the terminal
// is as it was.
func TestListInterrupted(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		quietly(t, b.Command("exec", "--create", "--name", "s", "--", "true"))
		s := onScreen(t, 24, 100, b.Program("sh", "-c", "for i in 1 2; do echo turn $((i+10)); "+b.Coffer+" ai; done; echo the e''nd"))
		s.see("turn 11")
		s.see("a new sandbox")
		s.typeIn("\x03")
		s.end(130)
		interruptedBySignal(t, s.cmd)
		if shown := s.text(); strings.Contains(shown, "turn 12") || strings.Contains(shown, "the end") {
			t.Errorf("the loop went on: %q", shown)
		}
		for _, n := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			s := onScreen(t, 24, 100, b.Command("ai"))
			s.see("a new sandbox")
			s.cmd.Process.Signal(n)
			s.end(128 + int(n))
			if now := s.settings(); *now != *s.was {
				t.Errorf("%v: the terminal's settings are %+v, were %+v", n, now, s.was)
			}
			if n == syscall.SIGINT {
				interruptedBySignal(t, s.cmd)
			}
		}
	})
}

// own gives the bed's home to its user.
func own(t *testing.T, b *testbed.Bed) {
	t.Helper()
	if b.UID == os.Getuid() {
		return
	}
	err := filepath.Walk(b.Home, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, b.UID, b.UID)
	})
	if err != nil {
		t.Fatal(err)
	}
}
