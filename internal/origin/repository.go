package origin

import (
	"context"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
)

// A Repository is one on GitHub, or on a server of the same kind.
type Repository struct{ Host, Owner, Name string }

// String is how gh is told of it.
func (r Repository) String() string { return r.Host + "/" + r.Owner + "/" + r.Name }

// Same says whether two are the same one; letters count alike there.
func (r Repository) Same(other Repository) bool { return strings.EqualFold(r.String(), other.String()) }

// A RemoteError is that a remote is on no server that gh knows. Its text may be told
// inside; where the remote is, may not.
type RemoteError struct{ Remote, URL string }

func (e *RemoteError) Error() string {
	return "the remote of the repository is not one that gh knows"
}

// Hint is for both sides.
func (e *RemoteError) Hint() string {
	return "gh works where the remote is on GitHub, or on a server of the same kind"
}

// divide finds the host and the path in the URL of a remote, and says whether ssh leads
// there.
func divide(remote string) (host, path string, ssh bool) {
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		switch u.Scheme {
		case "https", "http", "git":
			return u.Hostname(), u.Path, false
		case "ssh", "git+ssh":
			return u.Hostname(), u.Path, true
		}
		return "", "", false
	}
	if before, after, ok := strings.Cut(remote, ":"); ok && !strings.Contains(before, "/") { // user@host:path
		return before[strings.LastIndexByte(before, '@')+1:], after, true
	}
	return "", "", false
}

// ParseURL finds the repository that the URL of a remote means.
func ParseURL(remote string) (r Repository, err error) {
	host, path, _ := divide(remote)
	host = strings.ToLower(host)
	if host == "ssh.github.com" || host == "www.github.com" { // other doors of the same house
		host = "github.com"
	}
	owner, name, _ := strings.Cut(strings.Trim(path, "/"), "/")
	r = Repository{host, owner, strings.TrimSuffix(name, ".git")}
	if !r.valid() {
		return Repository{}, &RemoteError{URL: remote}
	}
	return r, nil
}

// Named is another one on the same server: OWNER/NAME, or SERVER/OWNER/NAME, as gh writes it
// down.
func (r Repository) Named(name string) (Repository, error) {
	words := strings.Split(name, "/")
	if len(words) == 3 {
		r.Host, words = strings.ToLower(words[0]), words[1:]
	}
	if len(words) == 2 {
		r.Owner, r.Name = words[0], words[1]
	}
	if len(words) != 2 || !r.valid() {
		return Repository{}, ui.Error("gh-resolved in the git config of the repository names no repository that gh knows", "choose one, outside the sandbox, with 'gh repo set-default'")
	}
	return r, nil
}

func (r Repository) valid() bool {
	return isName(r.Host, ".-") && strings.Contains(r.Host, ".") && isName(r.Owner, "-_.") && isName(r.Name, "-_.")
}

func isName(s, more string) bool {
	return s != "" && len(s) <= 200 && s[0] != '-' && s[0] != '.' && strings.Trim(s, letters+digits+more) == ""
}

// Who has two accounts on a server often gives the server two names, by Host entries in
// ~/.ssh/config, and uses these in remotes. gh does not know them. ssh does: ssh -G says
// what it would do for a name, and connects to nothing.

// Aliases finds the servers behind such names.
type Aliases struct{ ssh string }

// patienceSSH is how long ssh may think about it.
const patienceSSH = 10 * time.Second

// NewAliases asks the user's ssh, if there is one that nobody else can have put there;
// see [Look].
func NewAliases(writable []string) Aliases {
	ssh, _ := look("ssh", writable)
	return Aliases{ssh}
}

// Replace returns the URL of a remote with the server's own name in it. One that is not
// reached by ssh, or of which ssh says nothing else, stays as it is.
func (a Aliases) Replace(ctx context.Context, remote string) string {
	host, path, ssh := divide(remote)
	if !ssh || a.ssh == "" || strings.EqualFold(host, "github.com") || !isName(host, ".-_") {
		return remote
	}
	ctx, cancel := context.WithTimeout(ctx, patienceSSH)
	defer cancel()
	p := exec.CommandContext(ctx, a.ssh, "-G", "--", host)
	p.Dir, p.Env = "/", environment(a.ssh)
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) }
	p.WaitDelay = time.Second
	out := &bounded{left: maxErr}
	p.Stdout = out
	if p.Run() != nil {
		return remote
	}
	for line := range strings.Lines(out.String()) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "hostname "); ok && isName(name, ".-") {
			return "ssh://" + name + "/" + strings.TrimPrefix(path, "/")
		}
	}
	return remote
}
