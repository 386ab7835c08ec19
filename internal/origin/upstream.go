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

// fetchedLately is how long what the host fetched counts as new: a program in a loop must
// not have the user's server asked in one.
const fetchedLately = 5 * time.Second

// offer has the host fetch from its remote, and says where the branches are now. Git
// prints nothing while it waits for the user: the notice outside says what for.
func (s *server) offer(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("service") != "git-upload-pack" {
		refuse(w, http.StatusForbidden, ui.Error("one can only fetch here", "git push origin has the host push"))
		return
	}
	release, ok := s.take(w, r, s.turn)
	if !ok {
		return
	}
	defer release()
	refs, head, err := s.fetchRefs(w, r, func(string) {})
	if err != nil {
		refuse(w, http.StatusForbidden, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	w.Header().Set("Cache-Control", "no-cache")
	_ = git.OfferRefsHTTP(w, s.repository.Bridge.Format, refs, head)
}

// refs is offer for coffer's own program inside: first come lines for the user of git,
// while it waits, then an empty one, then what git reads. Without the empty one, nothing
// was fetched.
func (s *server) refs(w http.ResponseWriter, r *http.Request) {
	release, ok := s.take(w, r, s.turn)
	if !ok {
		return
	}
	defer release()
	w.Header().Set("Content-Type", "application/octet-stream")
	refs, head, err := s.fetchRefs(w, r, func(line string) {
		fmt.Fprintln(w, line)
		_ = http.NewResponseController(w).Flush()
	})
	if err != nil {
		fmt.Fprintln(w, err)
		if text := ui.HintOf(err); text != "" {
			fmt.Fprintln(w, "hint:", text)
		}
		return
	}
	fmt.Fprintln(w)
	_ = git.OfferRefs(w, s.repository.Bridge.Format, refs, head)
}

func (s *server) fetchRefs(w http.ResponseWriter, r *http.Request, say func(string)) (refs []git.Ref, head string, err error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the user may think about it; and to learn when it hangs up
	b, ctx := s.repository.Bridge, r.Context()
	remote, _, err := b.Project(ctx)
	if err == nil {
		err = s.fetch(ctx, remote, say)
	}
	if err != nil {
		return nil, "", err
	}
	return remote.Refs(ctx)
}

// fetch has the host fetch, if the user says so. Why it failed is not for the inside.
func (s *server) fetch(ctx context.Context, remote *git.Remote, say func(string)) error {
	if time.Since(s.fetched) < fetchedLately {
		return nil
	}
	err := s.Consent(ctx, network.Question{Rule: s.Sandbox.Git.Upstream, Key: "git.upstream", What: "have your repository fetch from " + s.repository.in(remote.Name)}, say)
	event := audit.Event{Kind: audit.KindGit, Verdict: "allow", Command: []string{"fetch", remote.Name}, Detail: "fetch from " + s.repository.in(remote.Name)}
	if err == nil {
		if err = remote.Fetch(ctx, s.reach()); err != nil {
			err = hostError{err}
		}
	}
	if err != nil {
		event.Verdict, event.Reason = "deny", err.Error()
	} else {
		s.fetched = time.Now()
	}
	s.Log(event)
	if errors.As(err, new(hostError)) {
		s.Tell("your repository could not fetch from " + s.repository.in(remote.Name) + ": " + event.Reason)
		err = ui.Error("the host could not fetch from "+remote.Name, "the user sees why with 'coffer audit --kind git "+s.Sandbox.Name+"'")
	}
	return err
}

// want is for a client that has not the host's objects.
func (s *server) want(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	w.Header().Set("Cache-Control", "no-cache")
	git.RefuseFetch(w, git.ErrNoObjects)
}
