package changes

import (
	"slices"
	"strings"
	"testing"
)

func text(mode uint32, s string) Side {
	return Side{Mode: mode, Text: []byte(s), Size: int64(len(s))}
}

func TestReview(t *testing.T) {
	const file = 0o100644
	tests := []struct {
		path     string
		old, new Side
		want     []string // "level rule", or with " …text"
	}{
		{"src/main.go", text(file, "a\n"), text(file, "a\nb\n"), nil},
		{"gone", text(0o100755, "x"), Side{}, nil},
		{"run.sh", Side{}, text(0o100755, "#!/bin/sh\n"), []string{"medium executable"}},
		{"run.sh", text(0o100755, "a\n"), text(0o100755, "b\n"), nil},
		{"run.sh", text(file, "a\n"), text(0o100755, "a\n"), []string{"medium executable"}},
		{"bin/x", Side{}, text(file, "\x7fELF\x02\x01\x00\x00"), []string{"high program"}},
		{"data", Side{}, text(file, "ab\x00cd"), []string{"low binary"}},
		{"big", Side{}, Side{Mode: file, Huge: true, Size: 1 << 30}, []string{"medium large"}},
		{".husky/pre-commit", Side{}, text(file, "x\n"), []string{"high hook"}},
		{"tools/githooks/post-checkout", Side{}, text(file, "x\n"), []string{"high hook"}},
		{"docs/update", Side{}, text(file, "x\n"), nil},
		{".vscode/tasks.json", Side{}, text(file, "{}\n"), []string{"high editor"}},
		{"sub/.VSCode/tasks.json", Side{}, text(file, "{}\n"), []string{"high editor"}},
		{".idea/runConfigurations/x.xml", Side{}, text(file, "x\n"), []string{"high editor"}},
		{".envrc", Side{}, text(file, "x\n"), []string{"high shell"}},
		{"CLAUDE.md", text(file, "a\n"), text(file, "b\n"), []string{"medium agent"}},
		{"AGENTS.md", Side{}, text(file, "b\n"), []string{"medium agent"}},
		{".claude/settings.json", Side{}, text(file, "{}\n"), []string{"high agent"}},
		{".mcp.json", Side{}, text(file, "{}\n"), []string{"high agent"}},
		{".cursor/rules/x", Side{}, text(file, "{}\n"), []string{"high agent"}},
		{".github/workflows/ci.yml", Side{}, text(file, "on: push\n"), []string{"medium ci"}},
		{"Makefile", text(file, "a\n"), text(file, "b\n"), []string{"low build"}},
		{"coffer.toml", Side{}, text(file, "x\n"), []string{"high coffer"}},
		{"package.json", text(file, `{"scripts":{"test":"a","lint":"l"}}`), text(file, `{"scripts":{"test":"b","lint":"l","postinstall":"curl evil"}}`),
			[]string{"high script …postinstall = curl evil", "medium script …test = b"}},
		{"package.json", text(file, `{"scripts":{"test":"a"}}`), text(file, `{"version":"2","scripts":{"test":"a"}}`), nil},
		{"package.json", Side{}, text(file, `{"scripts":`), nil},
		{".gitmodules", Side{}, text(file, "[submodule \"x\"]\n\tpath = x\n\turl = ../evil\n"), []string{"high submodule …path: x", "high submodule …url: ../evil"}},
		{"sub", text(0o160000, "Subproject commit 11\n"), text(0o160000, "Subproject commit 22\n"), []string{"medium submodule …22"}},
		{".gitattributes", text(file, "*.a text\n"), text(file, "*.a text\n*.b filter=evil\n"), []string{"medium attributes …*.b filter=evil"}},
		{"yarn.lock", text(file, "resolved \"https://good.example/a\"\n"), text(file, "resolved \"https://good.example/b\"\nresolved \"https://evil.example/b\"\n"), []string{"high hosts …before: evil.example"}},
		{"requirements-dev.txt", Side{}, text(file, "git+https://user@host.example/x\n"), []string{"medium hosts …host.example"}},
		{"a.go", Side{}, text(file, "ok\nif \u202e x {\n"), []string{"high hidden"}},
		{"a.go", text(file, "if \u202e x {\n"), text(file, "if \u202e x {\nmore\n"), nil},
		{"a.md", Side{}, text(file, "read\u200bme \U000e0041\n"), []string{"high hidden"}},
		{"log", Side{}, text(file, "\x1b[2J\n"), []string{"medium hidden"}},
		{"key.pem", Side{}, text(file, "-----BEGIN RSA PRIVATE KEY-----\n"), []string{"high secret …a private key"}},
		{"conf", Side{}, text(file, "key: AKIA"+"ABCDEFGHIJKLMNOP\n"), []string{"high secret …AWS"}},
		{"conf", Side{}, text(file, "url = postgres://me:hunter22@db.example/x\n"), []string{"high secret …password"}},
		{"conf", Side{}, text(file, "url = postgres://me:${PASSWORD}@db.example/x\n"), nil},
		{"link", Side{}, text(0o120000, "/etc/passwd"), []string{"high link"}},
		{"a/link", Side{}, text(0o120000, "../../x"), []string{"high link"}},
		{"a/link", Side{}, text(0o120000, "../b"), nil},
		{"a\u202eb", Side{}, text(file, "x\n"), []string{"high name"}},
		{"a\x1b[2J", Side{}, text(file, "x\n"), []string{"high name"}},
	}
	for _, tt := range tests {
		found := Review(File{Path: tt.path, Old: tt.old, New: tt.new})
		ok := len(found) == len(tt.want)
		for i := range min(len(found), len(tt.want)) {
			head, words, _ := strings.Cut(tt.want[i], " …")
			ok = ok && head == string(found[i].Level)+" "+found[i].Rule && strings.Contains(found[i].What, words)
		}
		if !ok {
			t.Errorf("%q: got %+v, want %q", tt.path, found, tt.want)
		}
	}
}

func TestLines(t *testing.T) {
	l := &look{File: File{New: text(0o100644, "a\nb\nnew\nc\nd\ne\nf\ng\nh\nlast"), Old: text(0o100644, "a\nb\nc\nd\ne\nf\ng\nh\n")}}
	got := l.lines()
	if len(got) != 2 || got[0] != (line{3, "new"}) || got[1] != (line{10, "last"}) {
		t.Errorf("%v", got)
	}
}

func TestAside(t *testing.T) {
	if len(ReviewIgnored(".vscode/settings.json", 0o100644)) != 1 || len(ReviewIgnored("node_modules/x/.envrc", 0o100644)) != 0 || len(ReviewIgnored("out.o", 0o100644)) != 0 {
		t.Error("ignored files are judged by their place alone")
	}
}

// A secret is never repeated, and what is quoted is bounded.
func TestQuotes(t *testing.T) {
	secret := "ghp_" + strings.Repeat("a", 36)
	found := Review(File{Path: "x", New: text(0o100644, "token = "+secret+"\n")})
	if len(found) != 1 || strings.Contains(found[0].What, secret) {
		t.Errorf("%+v", found)
	}
	long := Review(File{Path: "package.json", New: text(0o100644, `{"scripts":{"a":"`+strings.Repeat("x", 100000)+`"}}`)})
	if len(long) != 1 || len(long[0].What) > 500 {
		t.Errorf("%d findings", len(long))
	}
	if !slices.ContainsFunc(ReviewPassing("x", []byte(secret)), func(f Finding) bool { return strings.Contains(f.What, "history") }) {
		t.Error("a secret that passed by was not found")
	}
}

func FuzzReview(f *testing.F) {
	f.Add("package.json", []byte(`{}`), []byte(`{"scripts":{"a":"b"}}`), uint32(0o100644))
	f.Add(".gitmodules", []byte("x"), []byte("url = x\n"), uint32(0o100755))
	f.Add("link", []byte(""), []byte("../x"), uint32(0o120000))
	f.Fuzz(func(t *testing.T, path string, old, now []byte, mode uint32) {
		for _, x := range Review(File{Path: path, Old: Side{Mode: 0o100644, Text: old}, New: Side{Mode: mode, Text: now}}) {
			if len(x.What) > 1000 || x.Rule == "" {
				t.Errorf("%+v", x)
			}
		}
		ReviewIgnored(path, mode)
		ReviewPassing(path, now)
	})
}
