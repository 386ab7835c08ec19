package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
)

// Whoever follows an agent's credentials looks at the start and when something happened to
// them, also in a directory that was not there, and otherwise sleeps.
func TestFollowLogin(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	trace := agent.Trace{Agent: "a", Credentials: []agent.Credential{{Name: ".a/deep/auth.json"}}}
	looked, stop := following(t, trace, dir, home)
	await := func(why string) {
		t.Helper()
		select {
		case <-looked:
		case <-time.After(time.Minute):
			t.Fatal("no look: ", why)
		}
	}
	await("at the start")
	if err := os.MkdirAll(filepath.Join(home, ".a/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	await("after its directory was made")
	file := filepath.Join(home, ".a/deep/auth.json")
	if err := os.WriteFile(file+".new", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	await("after it was renewed")
	stop()
}

// A link in the home leads nowhere.
func TestFollowLoginStaysInside(t *testing.T) {
	dir, home, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(home, ".a")); err != nil {
		t.Fatal(err)
	}
	trace := agent.Trace{Agent: "a", Credentials: []agent.Credential{{Name: ".a/auth.json"}}}
	looked, stop := following(t, trace, dir, home)
	<-looked
	if err := os.WriteFile(filepath.Join(elsewhere, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The home itself is watched instead: this is heard, and it is the first that is.
	if err := os.WriteFile(filepath.Join(home, "y"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-looked:
	case <-time.After(time.Minute):
		t.Fatal("the home is not watched")
	}
	stop()
}

// following follows an agent's credentials, until the function that it returns is called.
func following(t *testing.T, trace agent.Trace, dir, home string) (looked chan struct{}, stop func()) {
	t.Helper()
	if err := trace.Write(dir); err != nil {
		t.Fatal(err)
	}
	looked = make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		followLogin(ctx, dir, home, nil, func() int { return 1 }, func() { looked <- struct{}{} })
	}()
	return looked, func() {
		cancel()
		<-ended
	}
}
