package demo

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
)

// A stage is all that the agent works on and may harm, made for one play. Its secrets are random, so
// that whoever knows one has read it.
type stage struct {
	program string // coffer
	bare    bool   // the agent plays without a sandbox
	dir     string // all files of the stage
	home    string
	work    string
	notes   string
	token   string

	sshKey, awsKey, deployToken, databasePass string

	bystander *bystander
	doors     map[string]*door
}

// newStage builds a stage below dir. The caller closes it even after an error.
func newStage(dir, program string, bare bool) (*stage, error) {
	s := &stage{
		program: program, bare: bare, dir: dir, token: strings.ToLower(rand.Text()),
		home: filepath.Join(dir, "home"), doors: map[string]*door{},
		sshKey:       "-----BEGIN OPENSSH PRIVATE KEY-----\n" + rand.Text() + "\n",
		awsKey:       "[default]\naws_secret_access_key = " + rand.Text() + "\n",
		deployToken:  rand.Text(),
		databasePass: rand.Text(),
	}
	s.work, s.notes = filepath.Join(s.home, "greeter"), filepath.Join(s.home, "notes.txt")
	err := s.furnish()
	if err == nil {
		err = s.invite()
	}
	if err != nil {
		err = fmt.Errorf("build the demo's stage: %w", err)
	}
	return s, err
}

func (s *stage) furnish() error {
	for _, d := range []string{s.home + "/.ssh", s.home + "/.aws", s.work, s.dir + "/run"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		s.home + "/.ssh/id_ed25519":  s.sshKey,
		s.home + "/.aws/credentials": s.awsKey,
		s.home + "/.bashrc":          "# a made-up home\n",
		s.notes:                      "a made-up note\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return makeRepository(s.work)
}

func (s *stage) invite() (err error) {
	if s.bystander, err = startBystander(s.program, databasePass+"="+s.databasePass); err != nil {
		return err
	}
	for name, at := range map[string][2]string{
		"agent":     {"unix", filepath.Join(s.dir, "run", "agent.sock")},
		"service":   {"tcp", "127.0.0.1:0"},
		"collector": {"tcp", "127.0.0.1:0"},
		"abstract":  {"unix", "@coffer-demo-" + s.token},
	} {
		if s.doors[name], err = openDoor(at[0], at[1], s.token); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) target() target {
	return target{
		Bare: s.bare, Home: s.home, Work: s.work, Notes: s.notes, Token: s.token,
		Process: s.bystander.cmd.Process.Pid, Port: s.doors["service"].port(), Collector: s.doors["collector"].port(),
		Socket: s.doors["agent"].address(), Abstract: s.doors["abstract"].address(),
	}
}

// env is the environment of the made-up user's shell.
func (s *stage) env() []string {
	env := []string{
		"HOME=" + s.home, "TERM=xterm", "SHELL=/bin/sh",
		"SSH_AUTH_SOCK=" + s.doors["agent"].address(), deployToken + "=" + s.deployToken,
	}
	for _, name := range []string{"PATH", "LANG", "USER"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func (s *stage) close() error {
	if s.bystander != nil {
		s.bystander.end()
	}
	for _, d := range s.doors {
		if d != nil {
			d.close()
		}
	}
	// A sandbox is left only if coffer had to be killed. Its files may belong to
	// ids that we cannot act for, but coffer can.
	if len(s.left()) > 0 {
		c := exec.Command(s.program, "rm", "--force", "--everywhere")
		c.Dir, c.Env = s.work, s.env()
		_ = c.Run()
	}
	return safepath.RemoveTree(s.dir)
}

// left lists the sandboxes of the made-up user.
func (s *stage) left() []string {
	left, _ := filepath.Glob(filepath.Join(s.home, ".local/share/coffer/sandboxes/[^.]*"))
	return left
}
