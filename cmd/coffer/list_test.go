package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// TestListingFits: on narrow terminals, no line of the sandboxes' listing is wider than it.
func TestListingFits(t *testing.T) {
	dirty := 3
	d := described{State: "running", Git: &git.Standing{Repository: "/home/ada/parser", Branch: "coffer/fix-parser", Ahead: 12, Behind: 3, Dirty: &dirty}}
	d.ID, d.Name, d.Workspace = "abcdefgh", "fix-parser", sandbox.Workspace{Mode: sandbox.WorkspaceTree, Path: "/home/ada/tree"}
	for _, test := range []struct {
		width int
		want  string
	}{
		{40, "NAME        STATE    BRANCH\nfix-parser  running  coffer/fix-parser\n"},
		{30, "NAME        STATE\nfix-parser  running\n"},
	} {
		var b strings.Builder
		listing([]described{d}, test.width).Print(&b)
		if b.String() != test.want {
			t.Errorf("in %d columns:\n%swant\n%s", test.width, b.String(), test.want)
		}
	}
	var b strings.Builder
	listing([]described{d}, 0).Print(&b)
	if header, _, _ := strings.Cut(b.String(), "\n"); !strings.Contains(header, "AHEAD/BEHIND") || !strings.HasPrefix(header, "ID ") {
		t.Errorf("a pipe gets\n%s", b.String())
	}
}

// TestListingFitsTurns: what agents were told takes the room that is left, and no more.
func TestListingFitsTurns(t *testing.T) {
	d := described{State: "stopped", Turn: &turn{Agent: "claude", Prompt: strings.Repeat("fix issue 42 ", 20), Started: time.Now(), State: "waiting for you"}}
	d.ID, d.Name, d.Workspace = "abcdefgh", "make-it-faster-1", sandbox.Workspace{Mode: sandbox.WorkspaceDirect, Path: "/home/ada/parser"}
	for _, width := range []int{80, 200} {
		var b strings.Builder
		listing([]described{d}, width).Print(&b)
		for _, want := range []string{"make-it-faster-1", "waiting for you", "TURN", "claude", "fix issue 42"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("in %d columns without %q:\n%s", width, want, b.String())
			}
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > width {
				t.Errorf("%d columns instead of %d: %s", n, width, line)
			}
		}
	}
}

// Names are made of what is left of a prompt.
func TestSlug(t *testing.T) {
	for prompt, want := range map[string]string{
		"Make it faster!": "make-it-faster", "fix\x1b[2J/../issue #42 in the parser": "fix-2j-issue-42",
		"日本語": "", "a supercalifragilisticexpialidocious word": "a",
	} {
		if got := slug(prompt); got != want {
			t.Errorf("%q is called %q, want %q", prompt, got, want)
		}
	}
}

// TestListingFromHome: on a terminal, every repository is named as people write it, those
// that a sandbox includes too.
func TestListingFromHome(t *testing.T) {
	home := sandbox.Me().Home
	d := described{Git: &git.Standing{Repository: home + "/parser"}}
	d.Included = []included{{Name: "library", Standing: git.Standing{Repository: home + "/library"}}}
	var b strings.Builder
	listing([]described{d}, 200).Print(&b)
	for _, want := range []string{" ~/parser\n", " ~/library\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("without %q:\n%s", want, b.String())
		}
	}
}
