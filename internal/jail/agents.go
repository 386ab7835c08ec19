package jail

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/ui"
)

// An Agent is a coding agent and what it needs of a machine. What is known about it is in
// package agent.
type Agent struct {
	Name    string
	Command string // its program
	Package string // of npm, to install it from; "" if it is not there
	// Args keep it from asking before it acts: the jail is the wall.
	Args []string
	// Env names its own variables, above all its credentials, which no other
	// program is given.
	Env []string
	// Set has variables that it runs with.
	Set map[string]string
	// State is where it keeps what it remembers.
	State []State
}

// A State is a directory of an agent.
type State struct{ agent.State }

// NewAgent is an agent in a jail.
func NewAgent(known *agent.Agent) *Agent {
	here := known.Jail()
	a := &Agent{Name: known.Name, Command: known.Command, Package: known.Package, Args: known.Bypass, Env: slices.Concat(known.Pass, here.Pass), Set: map[string]string{}}
	if len(here.Args) > 0 {
		a.Args = here.Args
	}
	maps.Copy(a.Set, known.Env)
	maps.Copy(a.Set, here.Env)
	for _, s := range here.State {
		a.State = append(a.State, State{s})
	}
	return a
}

// Environ is what the agent's environment has beyond that of any program. lookup finds a
// variable of the user's.
func (a *Agent) Environ(home string, lookup func(string) (string, bool)) map[string]string {
	env := map[string]string{}
	for _, name := range a.Env {
		if v, ok := lookup(name); ok {
			env[name] = v
		}
	}
	for name, v := range a.Set {
		env[name] = v
	}
	for _, s := range a.State {
		if _, set := lookup(s.Var); s.Var != "" && (set || s.Told) {
			env[s.Var] = s.dir(home, lookup)
		}
	}
	return env
}

// dir is where the state is.
func (s *State) dir(home string, lookup func(string) (string, bool)) string {
	if v, ok := lookup(s.Var); s.Var != "" && ok && filepath.IsAbs(v) {
		return filepath.Clean(v)
	}
	if v, ok := lookup(s.Base); s.Base != "" && ok && filepath.IsAbs(v) {
		return filepath.Join(v, s.Name)
	}
	return filepath.Join(home, s.In, s.Name)
}

// prepare makes the directory if it is missing, and says where it really is. A user who
// chose the place is not cut off from it, unless it is one that nobody may have.
func (s *State) prepare(home string, lookup func(string) (string, bool)) (string, error) {
	dir := s.dir(home, lookup)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the agent's directory: %w", err)
	}
	real, err := Resolve(dir)
	if err != nil {
		return "", err
	}
	if why := tooMuch(real, home); why != "" {
		return "", ui.Error(fmt.Sprintf("the agent's directory %s cannot be written to in a jail: %s", dir, why), "set "+s.Var+" to a directory of its own")
	}
	if s.Seed != "" {
		return real, s.seed(real, home)
	}
	return real, nil
}

// maxSeed bounds the file that is copied once.
const maxSeed = 64 << 20

// seed gives a file of the home, claude's settings and history, a place where it can be
// replaced by rename, which is how claude writes it: in its own directory. It starts as a
// copy of the one in the home, and is left alone from then on.
func (s *State) seed(dir, home string) error {
	to := filepath.Join(dir, s.Seed)
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	content := []byte("{}\n")
	if f, err := os.Open(filepath.Join(home, s.Seed)); err == nil {
		content, err = io.ReadAll(io.LimitReader(f, maxSeed))
		f.Close()
		if err == nil && len(content) == maxSeed {
			err = errors.New("the file is too large")
		}
		if err != nil {
			return fmt.Errorf("read %s of your home: %w", s.Seed, err)
		}
	}
	tmp, err := os.CreateTemp(dir, s.Seed+".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("seed %s: %w", to, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Link(tmp.Name(), to) // does not replace what somebody else made meanwhile
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("seed %s: %w", to, err)
	}
	return nil
}
