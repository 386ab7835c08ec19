package origin

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

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
