package changes

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":           "",
		"plain/a b":  "plain/a b",
		"-rf":        "-rf",
		"a\nb":       `"a\nb"`,
		"\x1b[31m":   `"\033[31m"`,
		"é":          `"\303\251"`,
		`q"\`:        `"q\"\\"`,
		"\x7f\xff\a": `"\177\377\a"`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("a/b")
	f.Add("\"\\\n\x00\x1b\xff")
	f.Fuzz(func(t *testing.T, name string) {
		q := Quote(name)
		for _, c := range []byte(q) {
			if c < ' ' || c > '~' {
				t.Fatalf("Quote(%q) = %q has the byte %#x", name, q, c)
			}
		}
		back := q
		if strings.HasPrefix(q, `"`) {
			back, _ = strconv.Unquote(q)
		}
		if back != name {
			t.Fatalf("%q became %q", name, back)
		}
		IsGit(name)
		LinkNote(name, name)
	})
}

func TestIsGit(t *testing.T) {
	for _, name := range []string{".git", ".GIT", ".Git", ".git.", ".git ", ".git . .", "git~1", "GIT~1",
		".git::$INDEX_ALLOCATION", ".g\u200cit", "\ufeff.git", ".gi\u206ft"} {
		if !IsGit(name) {
			t.Errorf("%q passes", name)
		}
	}
	for _, name := range []string{"git", ".gitignore", ".github", ".gitmodules", "a.git", "..git", ".gi", "git~2", "", "."} {
		if IsGit(name) {
			t.Errorf("%q is held", name)
		}
	}
}

func TestTargetNote(t *testing.T) {
	for _, c := range []struct {
		link, target string
		noted        bool
	}{
		{"l", "a", false}, {"l", "a/b", false}, {"d/l", "../a", false}, {"d/e/l", "../../a", false}, {"l", ".", false},
		{"l", "..", true}, {"l", "/etc", true}, {"d/l", "../..", true}, {"d/l", "../../x", true},
		{"l", "a/..", true}, {"l", ".git/hooks", true}, {"d/l", "../.GIT", true},
	} {
		if got := LinkNote(c.link, c.target); (got != "") != c.noted {
			t.Errorf("%s -> %s: %q", c.link, c.target, got)
		}
	}
}

// patch applies hunks to old, strictly: a reader's view of what we write.
func patch(old, text string) (string, error) {
	lines := strings.SplitAfter(old, "\n")
	var out strings.Builder
	at := 0
	for text != "" {
		var a, b, n, m int
		head, rest, _ := strings.Cut(text, "\n")
		if _, err := fmt.Sscanf(head, "@@ -%d,%d +%d,%d @@", &a, &n, &b, &m); err != nil {
			return "", fmt.Errorf("header %q: %w", head, err)
		}
		text = rest
		for n > 0 && at < a-1 {
			out.WriteString(lines[at])
			at++
		}
		for n > 0 || m > 0 || strings.HasPrefix(text, "\\") {
			line, rest, _ := strings.Cut(text, "\n")
			if line == "" {
				return "", fmt.Errorf("hunk ends early")
			}
			body := line[1:] + "\n"
			if strings.HasPrefix(rest, "\\ No newline at end of file\n") {
				body = line[1:]
				_, rest, _ = strings.Cut(rest, "\n")
			}
			text = rest
			if line[0] != '+' {
				if lines[at] != body {
					return "", fmt.Errorf("line %d is %q, the diff says %q", at, lines[at], body)
				}
				at++
				n--
			}
			if line[0] != '-' {
				out.WriteString(body)
				m--
			}
		}
	}
	for ; at < len(lines); at++ {
		out.WriteString(lines[at])
	}
	return out.String(), nil
}

func FuzzHunks(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\n")
	f.Add("", "x")
	f.Add("x", "")
	f.Add("a\n\n\nb", "a\n\\ No newline at end of file\n")
	f.Add("@@ -1,1 +1,1 @@\n", "--- a\n+++ b\n")
	f.Fuzz(func(t *testing.T, old, new string) {
		got, err := patch(old, string(Hunks([]byte(old), []byte(new))))
		if err != nil || got != new {
			t.Fatalf("%q to %q gave %q, %v", old, new, got, err)
		}
	})
}

// TestWorstDiff: a file made to be slow is not.
func TestWorstDiff(t *testing.T) {
	a := bytes.Repeat([]byte("a\nb\n"), defaultMax/4)
	b := bytes.Repeat([]byte("b\na\n\n"), defaultMax/5)
	if got, err := patch(string(a), string(Hunks(a, b))); err != nil || got != string(b) {
		t.Fatal("the diff does not lead from one to the other", err)
	}
}

const defaultMax = 1 << 20
