package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func home(t testing.TB) (*Home, string) {
	dir := t.TempDir()
	h, err := OpenHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h, dir
}

func put(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Links that a sandbox planted in its home lead nowhere.
func TestHomeIsTheWorld(t *testing.T) {
	h, dir := home(t)
	outside := filepath.Join(t.TempDir(), "victim")
	put(t, outside, "secret")
	for _, to := range []string{outside, "../" + filepath.Base(filepath.Dir(outside)) + "/victim"} {
		os.Remove(filepath.Join(dir, "link"))
		if err := os.Symlink(to, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		if data, err := h.Read("link"); err == nil {
			t.Errorf("read %q through a link", data)
		}
		if err := h.Write("link", []byte("new")); err != nil {
			t.Error(err)
		}
		if info, err := os.Lstat(filepath.Join(dir, "link")); err != nil || !info.Mode().IsRegular() {
			t.Error("the link was not replaced")
		}
	}
	// Nor is one read that leads to another file of the home: that is not what was looked for.
	put(t, filepath.Join(dir, "other"), "elsewhere")
	if err := os.Symlink("other", filepath.Join(dir, "near")); err != nil {
		t.Fatal(err)
	}
	if data, err := h.Read("near"); err == nil {
		t.Errorf("read %q through a link within the home", data)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := h.Write("sub/victim", []byte("new")); err == nil {
		t.Error("wrote through a link to a directory")
	}
	if _, err := h.Read("sub/victim"); err == nil {
		t.Error("read through a link to a directory")
	}
	if err := h.Write("sub/deep/er", []byte("new")); err == nil {
		t.Error("made a directory through a link")
	}
	if got := read(t, outside); got != "secret" {
		t.Errorf("the victim is %q", got)
	}
	// Pipes do not hold us up, and large files do not fill us.
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Read("pipe"); err == nil {
		t.Error("read a pipe")
	}
	put(t, filepath.Join(dir, "big"), strings.Repeat("x", maxFile+1))
	if _, err := h.Read("big"); err == nil {
		t.Error("read a large file")
	}
	if err := h.Write("a/b/c", []byte("mine")); err != nil || read(t, filepath.Join(dir, "a/b/c")) != "mine" {
		t.Errorf("cannot write at all: %v", err)
	}
}

// What an agent has written into a file that is merged stays.
func TestPutMerges(t *testing.T) {
	h, dir := home(t)
	file := filepath.Join(dir, "x.json")
	put(t, file, `{"mine":1234567890123456789,"projects":{"/w":{"history":[1]},"/v":{}},"keys":{"approved":["a"]}}`)
	f := File{Name: "x.json", Merge: map[string]any{
		"projects": map[string]any{"/w": map[string]any{"ok": true}},
		"keys":     map[string]any{"approved": []any{"a", "b"}}, "n": false,
	}}
	for range 2 {
		if err := h.Put(f); err != nil {
			t.Fatal(err)
		}
	}
	var got, want any
	if err := json.Unmarshal([]byte(read(t, file)), &got); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{"mine":1234567890123456789,"projects":{"/w":{"history":[1],"ok":true},"/v":{}},"keys":{"approved":["a","b"]},"n":false}`), &want)
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) || !strings.Contains(read(t, file), "1234567890123456789") {
		t.Errorf("%s, want %s", a, b)
	}
	for _, broken := range []string{"", "null", "[1]", "{", "\x00"} {
		put(t, file, broken)
		if err := h.Put(f); err != nil || !strings.Contains(read(t, file), `"ok": true`) {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

func TestTalked(t *testing.T) {
	h, dir := home(t)
	for _, a := range Known() {
		if h.Talked(a) {
			t.Errorf("%s has talked", a.Name)
		}
	}
	for _, f := range []string{
		".claude/projects/-w/1.jsonl", ".codex/sessions/2026/1/1/rollout-1.jsonl", ".gemini/tmp/w/chats/session.json",
		".local/share/opencode/opencode.db", ".pi/agent/sessions/w/1.jsonl",
	} {
		put(t, filepath.Join(dir, f), "{}")
	}
	put(t, filepath.Join(dir, ".gemini/tmp/w/logs.json"), "{}")
	for _, a := range Known() {
		if !h.Talked(a) {
			t.Errorf("%s has not talked", a.Name)
		}
	}
	if h.Talked(&Agent{Talks: ".gemini/tmp", TalkIn: "nothing"}) || h.Talked(&Agent{}) {
		t.Error("takes anything for a conversation")
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h.Talked(&Agent{Talks: "pipe"}) { // would wait for a writer
		t.Error("takes a pipe for a conversation")
	}
}
