package origin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
)

const (
	// patience is how long gh may take.
	patience = 2 * time.Minute
	// maxOut and maxErr bound what is taken of its answer.
	maxOut = 4 << 20
	maxErr = 64 << 10
)

// Look finds the user's gh on PATH. A directory in which others could have put one, those
// that a sandbox can write among them, is passed over.
func Look(writable []string) (string, error) {
	path, passed := look("gh", writable)
	switch {
	case path != "":
		return path, nil
	case passed != "":
		return "", ui.Error("the gh that is on the PATH is in a place where others could have put it, or a sandbox, and is not used",
			"install it in a directory that only the user and root can write, and start the sandbox from a shell that has it on its PATH")
	}
	return "", ui.Error("gh is not installed outside the sandbox, or not on the PATH there",
		"the user can install it, see https://cli.github.com, and log in with 'gh auth login'")
}

// look finds a program on PATH, or the first one that is passed over.
func look(name string, writable []string) (found, passed string) {
	within := func(path string) bool {
		return slices.ContainsFunc(writable, func(dir string) bool { return dir != "" && (path == dir || safepath.Within(path, dir)) })
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if filepath.IsAbs(dir) && !within(path) && !within(real) && private(filepath.Dir(real)) && private(real) {
			return path, passed
		}
		if passed == "" {
			passed = path
		}
	}
	return "", passed
}

// private says that nobody but its owner, us or root, can write something.
func private(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&0o002 != 0 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && (owner.Uid == 0 || int(owner.Uid) == os.Getuid())
}

// kept are the variables of the user's that gh is given: where its config and login are,
// and how to reach the network. What else begins with GH_ would change what it does.
var kept = []string{
	"HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
	"GH_CONFIG_DIR", "GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

func environment(program string) (env []string) {
	for _, name := range kept {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, "PATH="+filepath.Dir(program)+":/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "NO_COLOR=1", "CLICOLOR=0", "TERM=dumb",
		"GH_PROMPT_DISABLED=1", "GH_PAGER=cat", "PAGER=cat", "GH_NO_UPDATE_NOTIFIER=1", "GH_NO_EXTENSION_UPDATE_NOTIFIER=1", "GH_SPINNER_DISABLED=1",
		"GH_EDITOR=false", "GH_BROWSER=false", "BROWSER=false", "GIT_TERMINAL_PROMPT=0", "GIT_CEILING_DIRECTORIES=/")
}

// An Answer is what gh said, fit to be shown.
type Answer struct {
	Exit int    `json:"exit"`
	Out  string `json:"out,omitempty"`
	Err  string `json:"err,omitempty"`
}

// Run runs gh, in no repository, away from the user's terminal.
func Run(ctx context.Context, program string, c Command) (a Answer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("gh took too long"))
	defer cancel()
	p := exec.CommandContext(ctx, program, c.Args...)
	p.Dir, p.Env = "/", environment(program)
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) }
	p.WaitDelay = 5 * time.Second
	if c.Input != "" {
		p.Stdin = strings.NewReader(c.Input)
	}
	out, errs := &bounded{left: maxOut}, &bounded{left: maxErr}
	p.Stdout, p.Stderr = out, errs
	err = p.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return a, cause
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		a.Exit, err = exit.ExitCode(), nil
	}
	if err != nil {
		return a, fmt.Errorf("run gh: %w", err)
	}
	a.Out, a.Err = clean(out.String()), secretive(clean(errs.String()))
	if a.Exit == exitLogin {
		a.Err = "gh on the user's machine is not logged in; the user can log in with 'gh auth login'\n"
	}
	if out.cut {
		a.Err += fmt.Sprintf("gh said more than %d MiB, of which this is the beginning\n", maxOut>>20)
	}
	return a, nil
}

// exitLogin is gh's exit code for who is not logged in.
const exitLogin = 4

// clean takes out of lines what a terminal would obey.
func clean(s string) string {
	var b strings.Builder
	for l := range strings.Lines(s) {
		end := ""
		for _, e := range []string{"\n", "\r"} { // of a file that ends its lines so
			if cut, ok := strings.CutSuffix(l, e); ok {
				l, end = cut, e+end
			}
		}
		b.WriteString(terminal.Content(l))
		b.WriteString(end)
	}
	return b.String()
}

// secretive takes out of what gh says about itself where the user's files are, and what
// looks like a token.
func secretive(s string) string {
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		s = strings.ReplaceAll(s, home, "~")
	}
	return regexp.MustCompile(`gh[a-z]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|://[^/\s@]+@`).ReplaceAllString(s, "…")
}

// bounded is a buffer that forgets what is too much.
type bounded struct {
	bytes.Buffer
	left int
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if n > b.left {
		p, b.cut = p[:b.left], true
	}
	b.left -= len(p)
	b.Buffer.Write(p)
	return n, nil
}

// A Pull is whose a pull request is.
type Pull struct {
	Number     int64  `json:"number"`
	Head       string `json:"headRefName"`
	Repository *struct {
		Name string `json:"name"`
	} `json:"headRepository"`
	Owner *struct {
		Login string `json:"login"`
	} `json:"headRepositoryOwner"`
}

// From is the repository that its branch is in, on the server of another.
func (p Pull) From(to Repository) (r Repository) {
	if p.Repository != nil && p.Owner != nil {
		r = Repository{to.Host, p.Owner.Login, p.Repository.Name}
	}
	return r
}

// Find asks gh whose a pull request is, by its number or branch.
func Find(ctx context.Context, program string, in Repository, which string) (p Pull, err error) {
	a, err := Run(ctx, program, Command{Args: []string{"pr", "view", "--repo=" + in.String(), "--json=number,headRefName,headRepository,headRepositoryOwner", "--", which}})
	if err != nil {
		return p, err
	}
	if a.Exit != 0 {
		return p, fmt.Errorf("gh pr view: %s", strings.TrimSpace(a.Err))
	}
	if err := json.Unmarshal([]byte(a.Out), &p); err != nil || p.Number <= 0 {
		return p, errors.New("gh pr view gave an answer that is not understood")
	}
	return p, nil
}

// A Message is a line of what the host answers a program inside: words while it waits, and
// at last the answer.
type Message struct {
	Say    string  `json:"say,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}

// MaxAnswer bounds the host's answer, in which a byte may be spelled out.
const MaxAnswer = 8 * maxOut
