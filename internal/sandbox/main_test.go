package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test binary is also the other processes that tests need.
const childEnv = "COFFER_SANDBOX_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := child(role, os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(role string, args []string) error {
	s, err := Open(args[0])
	if err != nil {
		return err
	}
	switch role {
	case "create": // one sandbox named args[1]
		_, _, err := s.Create(Record{Name: args[1], Workspace: Workspace{Mode: WorkspaceNone}})
		return err
	case "hold": // a throw-away, until stdin ends
		sb, _, err := s.Create(throwAway())
		if err != nil {
			return err
		}
		fmt.Println(sb.ID)
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "adopt": // the sandbox args[1], with the lock in file 3
		sb, err := s.Get(args[1])
		if err != nil {
			return err
		}
		if _, err := sb.Adopt(os.NewFile(3, "lock")); err != nil {
			return err
		}
		fmt.Println(sb.ID)
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "churn": // create, save and remove until killed
		return churn(s)
	}
	return errors.New("no such role: " + role)
}

// churn says how far it is, so that whoever kills it can choose a moment.
func churn(s *Store) error {
	for i := 0; ; i++ {
		rec := throwAway()
		rec.Ephemeral = i%2 == 0
		sb, lock, err := s.Create(rec)
		if err != nil {
			return err
		}
		for j := range 4 {
			if err := os.MkdirAll(filepath.Join(sb.Home(), fmt.Sprint(j), "a", "b"), 0o700); err != nil {
				return err
			}
		}
		fmt.Println(sb.ID)
		sb.Command = append(sb.Command, "again")
		if err := sb.Save(); err != nil {
			return err
		}
		if err := lock.Remove(nil); err != nil {
			return err
		}
	}
}

type process struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func start(t *testing.T, files []*os.File, role string, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(exe, args...)}
	p.Env = append(os.Environ(), childEnv+"="+role)
	p.ExtraFiles = files
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child ended: %q %v", line, err)
	}
	return strings.TrimSpace(line)
}

func (p *process) kill() {
	if p.ProcessState == nil {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

func throwAway() Record {
	return Record{Ephemeral: true, Workspace: Workspace{Mode: WorkspaceNone}}
}

func stay(name string) Record {
	return Record{Name: name, Workspace: Workspace{Path: "/work/" + name, Mode: WorkspaceCOW}}
}

func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "coffer", "sandboxes"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// create makes a sandbox that does not run.
func create(t testing.TB, s *Store, rec Record) *Sandbox {
	t.Helper()
	sb, lock, err := s.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	return sb
}

// only checks that the store holds these sandboxes, healthy, and nothing else.
func only(t *testing.T, s *Store, ids ...string) {
	t.Helper()
	all, errs := s.List()
	if len(errs) > 0 {
		t.Errorf("broken sandboxes: %v", errs)
	}
	want := map[string]bool{storeLockName: true}
	for _, id := range ids {
		want[id] = true
	}
	if len(all) != len(ids) {
		t.Errorf("%d sandboxes, want %d", len(all), len(ids))
	}
	entries, err := s.entries()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range entries {
		if !want[name] {
			t.Errorf("left over: %s", name)
		}
	}
}
