package supervisor

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gitbridge/receive"
	"github.com/cofferhq/coffer/internal/hint"
)

// fetchedLately is how long what the host fetched counts as new: a program in a loop must
// not have the user's server asked in one.
const fetchedLately = 5 * time.Second

// offer has the host fetch from its remote, and says where the branches are now. Git
// prints nothing while it waits for the user: the notice outside says what for.
func (h *hostServer) offer(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("service") != "git-upload-pack" {
		refuse(w, http.StatusForbidden, hint.New("one can only fetch here", "git push origin has the host push"))
		return
	}
	release, ok := h.take(w, r, h.turn)
	if !ok {
		return
	}
	defer release()
	b := h.repository.bridge
	remote, err := b.Project(r.Context())
	if err == nil {
		err = h.fetch(r.Context(), remote)
	}
	var refs []receive.Ref
	var head string
	if err == nil {
		refs, head, err = b.UpstreamRefs(r.Context(), remote)
	}
	if err != nil {
		refuse(w, http.StatusForbidden, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	w.Header().Set("Cache-Control", "no-cache")
	_ = receive.Offer(w, b.Format, refs, head)
}

// fetch has the host fetch, if the user says so. Why it failed is not for the inside.
func (h *hostServer) fetch(ctx context.Context, remote string) error {
	if time.Since(h.fetched) < fetchedLately {
		return nil
	}
	err := h.consent(ctx, h.Sandbox.Git.Upstream, "upstream", "git.upstream", "have your repository fetch from "+h.repository.of(remote), func(string) {})
	event := audit.Event{Kind: audit.KindGit, Verdict: "allow", Command: []string{"fetch", remote}, Detail: "fetch from " + h.repository.of(remote)}
	if err == nil {
		if err = h.repository.bridge.FetchUpstream(ctx, remote, h.reach()); err != nil {
			err = hostError{err}
		}
	}
	if err != nil {
		event.Verdict, event.Reason = "deny", err.Error()
	} else {
		h.fetched = time.Now()
	}
	h.audit.add(event)
	if errors.As(err, new(hostError)) {
		h.notices.tell("your repository could not fetch from " + h.repository.of(remote) + ": " + event.Reason)
		err = hint.New("the host could not fetch from "+remote, "the user sees why with 'coffer audit --kind git "+h.Sandbox.ID+"'")
	}
	return err
}

// want is for a client that has not the host's objects.
func (h *hostServer) want(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	w.Header().Set("Cache-Control", "no-cache")
	receive.Want(w, "objects are not sent here: fetch with 'git fetch upstream' in the repository of the sandbox")
}
