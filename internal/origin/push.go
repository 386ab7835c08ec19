package origin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/ui"
)

const (
	// patienceUpload is how long a push may take to arrive, and patienceServe how long its
	// whole answer may take: the user may be asked, and the remote is far.
	patienceUpload = 2 * time.Minute
	patienceServe  = 25 * time.Minute
)

// take waits for one of the places. The caller calls the function that it returns.
func (s *server) take(w http.ResponseWriter, r *http.Request, places chan struct{}) (release func(), ok bool) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(patienceUpload))
	_ = c.SetWriteDeadline(time.Now().Add(patienceServe))
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	case <-r.Context().Done():
		return nil, false
	}
}

// refuse answers with text, which git prints behind "remote:".
func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, err)
	if h := ui.HintOf(err); h != "" {
		fmt.Fprintln(w, "hint:", h)
	}
}

// advertise says which branches of the remote the sandbox can push to.
func (s *server) advertise(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("service") != "git-receive-pack" {
		refuse(w, http.StatusForbidden, ui.Error("one can only push here", "fetch from origin, which is the user's repository"))
		return
	}
	release, ok := s.take(w, r, s.turn)
	if !ok {
		return
	}
	defer release()
	b := s.repository.Bridge
	// What has come out need not be sent again.
	_ = s.repository.Sync(5 * time.Second)
	remote, err := b.Remote(r.Context())
	var refs []git.Ref
	var have []string
	if err == nil {
		refs, have, err = remote.Pushable(r.Context(), s.Sandbox.Git.Patterns)
	}
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-receive-pack-advertisement")
	w.Header().Set("Cache-Control", "no-cache")
	_ = git.AdvertisePush(w, b.Format, refs, have)
}

// receive takes a push.
func (s *server) receive(w http.ResponseWriter, r *http.Request) {
	release, ok := s.take(w, r, s.turn)
	if !ok {
		return
	}
	defer release()
	commands, err := git.ReadPush(http.MaxBytesReader(w, r.Body, git.MaxPushPack+1<<20), s.repository.Bridge.Format)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // to learn when it hangs up
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	w.Header().Set("Cache-Control", "no-cache")
	if len(commands) == 0 {
		return
	}
	out := git.PushAnswer{W: w, Flush: func() { _ = http.NewResponseController(w).Flush() }}
	out.End(s.push(r.Context(), commands, out))
}

// push does what was asked for, as far as it may be: each branch by itself.
func (s *server) push(ctx context.Context, commands []git.PushCommand, out git.PushAnswer) (results []git.PushResult) {
	b, rule := s.repository.Bridge, s.Sandbox.Git
	synced := s.repository.Sync(time.Minute)
	remote, err := b.Remote(ctx)
	if err == nil {
		err = synced
	}
	for _, c := range commands {
		move, failed := git.Move{}, err
		if failed == nil {
			move, failed = remote.Judge(ctx, rule.Patterns, c)
		}
		if failed == nil {
			failed = s.Consent(ctx, network.Question{Rule: rule.Push, Key: "git.push", What: s.repository.in(move.String())}, out.Say)
		}
		if failed == nil {
			failed = s.pushOne(ctx, remote, move, out)
		}
		results = append(results, s.tell(c, move, failed, out))
	}
	return results
}

func (s *server) pushOne(ctx context.Context, remote *git.Remote, m git.Move, out git.PushAnswer) error {
	said, err := remote.Push(ctx, m, s.reach())
	for _, line := range said {
		out.Say(line)
	}
	if rejected := new(git.RejectedError); err != nil && !errors.As(err, &rejected) {
		err = hostError{err}
	}
	return err
}

// hostError is what goes wrong between the host and the remote. It may name places and
// credentials of the user, and is not for the inside to know.
type hostError struct{ error }

// tell says what became of one branch: to git inside, and to the log.
func (s *server) tell(c git.PushCommand, m git.Move, err error, out git.PushAnswer) git.PushResult {
	event := audit.Event{Kind: audit.KindGit, Verdict: "allow", Command: []string{"push", c.New + ":" + c.Ref}}
	if m.Branch != "" { // it came so far
		event.Command, event.Detail = []string{"push", m.Remote, c.New + ":" + c.Ref}, s.repository.in(m.String())
	}
	if c.Old != "" {
		event.Detail += " (it was at " + c.Old + ")"
	}
	result := git.PushResult{Ref: c.Ref}
	if err != nil {
		event.Verdict, event.Reason = "deny", err.Error()
		result.Reason = err.Error()
		if errors.As(err, new(hostError)) {
			result.Reason = "the host could not push it"
			err = ui.Error("the host could not push to "+m.Remote, "the user sees why with 'coffer audit --kind git "+s.Sandbox.Name+"'")
			s.Tell(fmt.Sprintf("a push to %s failed: %s", s.repository.in(m.Remote), event.Reason))
		}
		out.Say(err.Error())
		if text := ui.HintOf(err); text != "" {
			out.Say("hint: " + text)
		}
	}
	s.Log(event)
	return result
}
