package turn

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/fakenet"
	"github.com/cofferhq/coffer/internal/model"
	"github.com/cofferhq/coffer/internal/testbed"
)

// host is where the model is for those who believe it is Anthropic's.
const host = "api.anthropic.com"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "standin" {
		if err := standIn(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "standin:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	fakenet.Main(func() { testbed.Main(m) })
}

// A stage is a repository of a user in the fake internet, with a model in it.
type stage struct {
	*testbed.Bed
	t     *testing.T
	world *fakenet.World
	model *model.Server
	env   []string
}

// each runs a test for every user, in a fake internet of its own.
func each(t *testing.T, test func(t *testing.T, s *stage)) {
	testbed.Binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		if w := fakenet.Enter(t, testbed.Shared(t)); w != nil {
			test(t, newStage(t, b, w))
		}
	})
}

func newStage(t *testing.T, b *testbed.Bed, w *fakenet.World) *stage {
	s := &stage{Bed: b, t: t, world: w, model: &model.Server{}}
	for _, name := range []string{host, "api.openai.com", "generativelanguage.googleapis.com"} {
		w.Site(name, s.model)
	}
	me, err := os.ReadFile("/proc/self/exe")
	s.must(err)
	s.put(filepath.Join(b.Home, ".local/bin/standin"), me, 0o755)
	s.put(filepath.Join(b.Dir, "ca.pem"), w.CA, 0o644)
	s.put(filepath.Join(b.Home, ".ssh/id_ed25519"), []byte("my-secret-key\n"), 0o600)
	s.put(filepath.Join(b.Home, ".gitconfig"), []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n"), 0o644)
	s.put(filepath.Join(b.Home, ".config/coffer/config.toml"), []byte(`
[agents.standin]
resume = ["--continue"]
conversation = ".standin/talk.json"
instructions = ".standin/AGENTS.md"
ca = ["STANDIN_CA"]
`), 0o644)
	s.put(filepath.Join(b.Work, "README"), []byte("hello\n"), 0o644)
	s.own(b.Home)
	s.own(b.Work)
	s.env = []string{"NODE_EXTRA_CA_CERTS=" + filepath.Join(b.Dir, "ca.pem")}
	s.git("init", "-q")
	s.git("add", "-A")
	s.git("commit", "-qm", "first")
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) put(file string, data []byte, mode os.FileMode) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(file), 0o755))
	s.must(os.WriteFile(file, data, mode))
}

// own gives everything in a directory to the stage's user.
func (s *stage) own(dir string) {
	if s.UID != os.Getuid() {
		s.must(filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, s.UID, s.UID)
		}))
	}
}

// patience is for anything that should not take long, on any machine.
const patience = 3 * time.Minute

// coffer runs a command and returns what it printed, and how it ended.
func (s *stage) coffer(args ...string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := s.Command(args...)
	return finish(ctx, s, c)
}

func finish(ctx context.Context, s *stage, c *exec.Cmd) (string, error) {
	c.Env = append(c.Env, s.env...)
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { c.Process.Kill() })
	defer stop()
	err := c.Wait()
	return out.String(), err
}

// run wants a command to succeed.
func (s *stage) run(args ...string) string {
	s.t.Helper()
	out, err := s.coffer(args...)
	if err != nil {
		s.t.Fatalf("coffer %q: %v\n%s", args, err, out)
	}
	return out
}

func (s *stage) git(args ...string) string {
	s.t.Helper()
	c := s.Program("git", args...)
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// until waits for something.
func (s *stage) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("it never comes to this: %s", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
