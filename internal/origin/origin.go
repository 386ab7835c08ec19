// Package origin has the host do with the user's git remote and gh what programs in a sandbox ask
// for, as far as the config or the user allows it: push, fetch upstream, and gh.
//
// It serves http://coffer.internal/: git push to /git/, where a server of git's HTTP protocol is, git
// fetch upstream below it, and gh beside. The user's credentials never enter the sandbox.
package origin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// A Host is the sandbox around the server.
type Host struct {
	Sandbox *sandbox.Sandbox
	Consent func(ctx context.Context, q network.Question, say func(string)) error
	Log     func(audit.Event)
	Tell    func(line string) // shows the user a notice
}

// A Repository is one that programs push to and fetch from.
type Repository struct {
	Bridge *git.Bridge
	Name   string // of one that is included; empty for the sandbox's own
	// Sync fetches what was committed inside, and waits for it so long.
	Sync func(patience time.Duration) error
}

// in adds the repository to a text, for the user, who may be asked about several.
func (r *Repository) in(text string) string {
	if r.Name == "" {
		return text
	}
	return text + " (repository " + r.Name + ")"
}

// A server answers for one repository.
type server struct {
	Host
	repository Repository
	turn       chan struct{} // one push or fetch at a time
	hub        *hub          // which all share
	fetched    time.Time     // when the host last fetched; for whoever has the turn
}

// Handler serves all repositories. Most sandboxes never ask: it is made for the first who does.
func Handler(h Host, all func() []Repository) http.Handler {
	made := sync.OnceValue(func() http.Handler { return newHandler(h, all()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
}

func newHandler(h Host, all []Repository) http.Handler {
	mux, hub, included := http.NewServeMux(), &hub{places: make(chan struct{}, ghAtOnce)}, map[string]http.Handler{}
	for _, repository := range all {
		s := &server{Host: h, repository: repository, turn: make(chan struct{}, 1), hub: hub}
		if included[repository.Name] = s.handler(); repository.Name == "" {
			mux.Handle("/git/", included[""])
		}
	}
	mux.HandleFunc("/include/{name}/git/", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if one := included[name]; one != nil {
			http.StripPrefix("/include/"+name, one).ServeHTTP(w, r)
		} else {
			http.NotFound(w, r)
		}
	})
	return mux
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /git/info/refs", s.advertise)
	mux.HandleFunc("POST /git/git-receive-pack", s.receive)
	mux.HandleFunc("GET /git/upstream/info/refs", s.offer)
	mux.HandleFunc("GET /git/upstream/refs", s.refs)
	mux.HandleFunc("POST /git/upstream/git-upload-pack", s.want)
	mux.HandleFunc("POST /git/gh", s.gh)
	return mux
}

// reach are directories of the host, besides those of the store, that the sandbox can write.
func (s *server) reach() []string { return s.Sandbox.Writes() }
