package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// What programs inside have the host do comes to http://coffer.internal/: git push to
// /git/, where a server of git's HTTP protocol is, git fetch upstream below it, and gh beside.
//
// Most sandboxes never ask, and every start would wait for it to be made: that is left to the first
// who does.
func (s *Supervisor) serveHost() http.Handler {
	made := sync.OnceValue(s.newHost)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
}

func (s *Supervisor) newHost() *http.ServeMux {
	mux, hub := http.NewServeMux(), newHub()
	own := &hostServer{Supervisor: s, repository: &s.git, turn: make(chan struct{}, 1), hub: hub}
	for path, find := range map[string]func(*http.Request) *hostServer{
		"/git":                func(*http.Request) *hostServer { return own },
		"/include/{name}/git": func(r *http.Request) *hostServer { return s.included.server(r.PathValue("name"), s, hub) },
	} {
		handle := func(pattern string, do func(*hostServer, http.ResponseWriter, *http.Request)) {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				if h := find(r); h != nil {
					do(h, w, r)
				} else {
					http.NotFound(w, r)
				}
			})
		}
		handle("GET "+path+"/info/refs", (*hostServer).advertise)
		handle("POST "+path+"/git-receive-pack", (*hostServer).receive)
		handle("GET "+path+"/upstream/info/refs", (*hostServer).offer)
		handle("GET "+path+"/upstream/refs", (*hostServer).refs)
		handle("POST "+path+"/upstream/git-upload-pack", (*hostServer).want)
		handle("POST "+path+"/gh", (*hostServer).gh)
	}
	return mux
}

type hostServer struct {
	*Supervisor
	repository *commits
	turn       chan struct{} // one at a time

	fetched time.Time // when the host last fetched; for who has a turn
	hub     *hub      // which all share
}

const (
	// patienceUpload is how long a push may take to arrive, and patienceServe how long its
	// whole answer may take: the user may be asked, and the remote is far.
	patienceUpload = 2 * time.Minute
	patienceServe  = 25 * time.Minute
)

// take waits for one of the places. The caller calls the function that it returns.
func (h *hostServer) take(w http.ResponseWriter, r *http.Request, places chan struct{}) (release func(), ok bool) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(patienceUpload))
	_ = c.SetWriteDeadline(time.Now().Add(patienceServe))
	if h.repository.bridge == nil {
		refuse(w, http.StatusNotFound, errors.New("this sandbox has no repository of its own"))
		return nil, false
	}
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
func (h *hostServer) advertise(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("service") != "git-receive-pack" {
		refuse(w, http.StatusForbidden, ui.Error("one can only push here", "fetch from origin, which is the user's repository"))
		return
	}
	release, ok := h.take(w, r, h.turn)
	if !ok {
		return
	}
	defer release()
	b := h.repository.bridge
	// What has come out need not be sent again.
	h.repository.bringOver(syncPatience)
	remote, err := b.Remote(r.Context())
	var refs []git.Ref
	var have []string
	if err == nil {
		refs, have, err = b.Pushable(r.Context(), remote, h.Sandbox.Git.Patterns)
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
func (h *hostServer) receive(w http.ResponseWriter, r *http.Request) {
	release, ok := h.take(w, r, h.turn)
	if !ok {
		return
	}
	defer release()
	commands, err := git.ReadPush(http.MaxBytesReader(w, r.Body, git.MaxPushPack+1<<20), h.repository.bridge.Format)
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
	out.End(h.push(r.Context(), commands, out))
}

// push does what was asked for, as far as it may be: each branch by itself.
func (h *hostServer) push(ctx context.Context, commands []git.PushCommand, out git.PushAnswer) (results []git.PushResult) {
	b, rule := h.repository.bridge, h.Sandbox.Git
	came := h.repository.bringOver(time.Minute)
	remote, err := b.Remote(ctx)
	if err == nil {
		err = came.err
	}
	for _, c := range commands {
		move, failed := git.Move{}, err
		if failed == nil {
			move, failed = b.Judge(ctx, remote, rule.Patterns, c)
		}
		if failed == nil {
			failed = h.consent(ctx, rule.Push, "push", "git.push", h.repository.of(move.String()), out.Say)
		}
		if failed == nil {
			failed = h.pushOne(ctx, move, out)
		}
		results = append(results, h.tell(c, move, failed, out))
	}
	return results
}

func (h *hostServer) pushOne(ctx context.Context, m git.Move, out git.PushAnswer) error {
	said, err := h.repository.bridge.Push(ctx, m, h.reach())
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
func (h *hostServer) tell(c git.PushCommand, m git.Move, err error, out git.PushAnswer) git.PushResult {
	event := audit.Event{Kind: audit.KindGit, Verdict: "allow", Command: []string{"push", c.New + ":" + c.Ref}}
	if m.Branch != "" { // it came so far
		event.Command, event.Detail = []string{"push", m.Remote, c.New + ":" + c.Ref}, h.repository.of(m.String())
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
			err = ui.Error("the host could not push to "+m.Remote, "the user sees why with 'coffer audit --kind git "+h.Sandbox.Name+"'")
			h.notices.tell(fmt.Sprintf("a push to %s failed: %s", h.repository.of(m.Remote), event.Reason))
		}
		out.Say(err.Error())
		if text := ui.HintOf(err); text != "" {
			out.Say("hint: " + text)
		}
	}
	h.audit.add(event)
	return result
}

func (s *Supervisor) reach() []string { return Writes(s.Sandbox) }

// Writes are directories of the host, besides those of the store, that a sandbox can write.
func Writes(sb *sandbox.Sandbox) (dirs []string) {
	if sb.Workspace.Mode == sandbox.WorkspaceDirect {
		dirs = append(dirs, sb.Workspace.Path)
	}
	for _, m := range sb.Mounts {
		if !m.ReadOnly && !m.Copy {
			dirs = append(dirs, m.Source)
		}
	}
	return dirs
}
