package origin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/ui"
)

// hub bounds how much gh is used: so many at a time, and so many in a minute.
type hub struct {
	places chan struct{}
	mu     sync.Mutex
	recent []time.Time
}

const (
	ghAtOnce    = 4
	ghPerMinute = 30
)

// admit counts a call, if it is not one too many.
func (h *hub) admit(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = slices.DeleteFunc(h.recent, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(h.recent) >= ghPerMinute {
		return false
	}
	h.recent = append(h.recent, now)
	return true
}

// gh answers the program gh inside: with messages while it waits, and then the answer.
func (s *server) gh(w http.ResponseWriter, r *http.Request) {
	release, ok := s.take(w, r, s.hub.places)
	if !ok {
		return
	}
	defer release()
	c := http.NewResponseController(w)
	req, err := Read(http.MaxBytesReader(w, r.Body, MaxRequest))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	_ = c.SetReadDeadline(time.Time{}) // to learn when it hangs up
	w.Header().Set("Content-Type", "application/jsonl")
	out := json.NewEncoder(w)
	answer, err := s.useGH(r.Context(), &req, func(line string) {
		_ = out.Encode(Message{Say: line})
		_ = c.Flush()
	})
	answer = s.tellGH(&req, answer, err)
	_ = out.Encode(Message{Answer: &answer})
}

// useGH does what was asked for, if it is the sandbox's to ask for, and the user says so.
func (s *server) useGH(ctx context.Context, r *Request, say func(string)) (a Answer, err error) {
	if !s.hub.admit(time.Now()) {
		return a, ui.Error("gh was used too often in the last minute", "wait a moment")
	}
	b, rule, key := s.repository.Bridge, s.Sandbox.Git.GHRead, "git.gh_read"
	if r.Writes() {
		rule, key = s.Sandbox.Git.GH, "git.gh"
	}
	if rule == "deny" {
		return a, s.Consent(ctx, network.Question{Rule: rule, Key: key}, say)
	}
	program, err := Look(b.Writable(s.reach()))
	if err != nil {
		return a, err
	}
	at, err := OnGitHub(ctx, b, s.reach())
	if err != nil {
		return a, err
	}
	to, from, remote := at.To, at.From, at.Remote
	about, head := "", ""
	if r.Creates() || r.OfBranch() || r.Writes() {
		heads, err := remote.Heads(ctx, s.Sandbox.Git.Patterns)
		if err != nil {
			return a, hostError{err}
		}
		if r.Creates() || r.OfBranch() {
			if head, err = chooseHead(heads, r.Head(), b.Branch); err != nil {
				return a, err
			}
			if !from.Same(to) {
				head = from.Owner + ":" + head
			}
			about = head
		}
		if r.Writes() && !r.Creates() {
			if err := own(ctx, program, to, from, heads, about, r); err != nil {
				return a, err
			}
		}
	}
	if r.Creates() {
		about = ""
	}
	if err := s.Consent(ctx, network.Question{Rule: rule, Key: key, What: r.String() + " (" + to.String() + ")"}, say); err != nil {
		return a, err
	}
	if a, err = Run(ctx, program, r.Command(to, about, head)); err != nil {
		err = hostError{err}
	}
	return a, err
}

// chooseHead is the branch of the remote that is meant: the one that is named, or the
// sandbox's own.
func chooseHead(heads []string, named, own string) (string, error) {
	if named == "" {
		named = own
		if len(heads) == 1 {
			named = heads[0]
		}
	}
	if !slices.Contains(heads, named) {
		return "", ui.Error(fmt.Sprintf("this sandbox has not pushed a branch %s", named), "push it first: git push origin HEAD:"+named)
	}
	return named, nil
}

// own sees to it that a pull request is one of a branch of the sandbox's, and notes its
// number.
func own(ctx context.Context, program string, to, from Repository, heads []string, about string, r *Request) error {
	if r.Number != "" {
		about = r.Number
	}
	p, err := Find(ctx, program, to, about)
	if err != nil {
		return err
	}
	if !slices.Contains(heads, p.Head) || !p.From(to).Same(from) {
		return ui.Error(fmt.Sprintf("pull request %d is not of a branch of this sandbox, which cannot change it", p.Number), "the user can, outside")
	}
	r.Number = strconv.FormatInt(p.Number, 10)
	return nil
}

// tellGH writes down what became of it, and makes an answer of what went wrong.
func (s *server) tellGH(r *Request, a Answer, err error) Answer {
	event := audit.Event{Kind: audit.KindGit, Verdict: "allow", Command: append([]string{"gh"}, r.Words()...), Detail: r.String(), Exit: &a.Exit}
	if err != nil {
		event.Verdict, event.Reason = "deny", err.Error()
		if errors.As(err, new(hostError)) {
			s.Tell("gh failed: " + event.Reason)
			err = ui.Error("the host could not run gh", "the user sees why with 'coffer audit --kind git "+s.Sandbox.Name+"'")
		}
		a = Answer{Exit: 1, Err: "gh: " + err.Error() + "\n"}
		if text := ui.HintOf(err); text != "" {
			a.Err += "hint: " + text + "\n"
		}
	}
	s.Log(event)
	return a
}

// GitHub is where a sandbox's work goes. In most repositories it is all one; who works
// with a fork pushes to that, and opens pull requests in the project.
type GitHub struct {
	To     Repository  // where pull requests are
	From   Repository  // where pushed branches are
	Remote *git.Remote // what the user's git calls that
}

// OnGitHub finds out which repositories gh is to be told of. reach are directories that
// the sandbox can write.
func OnGitHub(ctx context.Context, b *git.Bridge, reach []string) (g GitHub, err error) {
	project, name, err := b.Project(ctx)
	if err != nil {
		return g, err
	}
	url, err := project.URL(ctx, false)
	if err != nil {
		return g, hostError{err}
	}
	aliases := NewAliases(b.Writable(reach))
	if g.To, err = ParseURL(aliases.Replace(ctx, url)); err != nil {
		return g, &RemoteError{Remote: project.Name, URL: git.Redact(url)}
	}
	if g.Remote, err = b.Remote(ctx); err != nil {
		return g, err
	}
	g.From = g.To
	for _, push := range []bool{true, false} { // it may be another one to push to
		url, err := g.Remote.URL(ctx, push)
		if err != nil || g.Remote.Name == project.Name {
			break
		}
		if r, err := ParseURL(aliases.Replace(ctx, url)); err == nil && r.Host == g.To.Host {
			g.From = r
			break
		}
	}
	if name != "" {
		g.To, err = g.To.Named(name)
	}
	return g, err
}
