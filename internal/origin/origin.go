// Package origin has the host do with the user's git remote and gh what programs in a sandbox ask
// for, as far as the config or the user allows it: push, fetch upstream, and gh.
//
// It serves http://coffer.internal/: git push to /git/, where a server of git's HTTP protocol is, git
// fetch upstream below it, and gh beside. The user's credentials never enter the sandbox.
//
// # What a sandbox can have of gh
//
// Of GitHub's command line it has a few verbs, for one
// repository, run by the host with the user's own gh and login.
//
// Inside, the program gh is coffer by another name. It understands the command line with
// the same table that the host has, reads what files the command line names, and sends
// what it understood: a verb, a number, and options by their long names. That is a
// [Request]. It is never a command line, so there is no order of words, no quoting and no
// abbreviation on which the two sides could disagree.
//
// Outside, a request is a stranger's. It is read with bounds and checked against the table:
// a verb or an option that is not in it does not exist, and each value must be of its
// option's kind. Then a command line for gh is made anew, each option as one word
// --name=value, and behind -- at most one number; what is written goes by standard input.
// The repository, and the branch that a pull request is made of, are not asked for: the
// host says them. What can be changed is only a pull request whose branch is the
// sandbox's, which gh is asked about first.
//
// What is not in the table, and why: --repo and names of hosts (it is this repository),
// --web and --editor (they start programs), --body-file and --template (they read files
// of the host's), --search (it can name other repositories), --jq (it can print the
// environment, tokens among it; the program inside has jq do it there), --watch (it does
// not end), --edit-last and --delete-last (the last comment may be the user's own).
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

// A Served repository is one that programs push to and fetch from.
type Served struct {
	Bridge *git.Bridge
	Name   string // of one that is included; empty for the sandbox's own
	// Sync fetches what was committed inside, and waits for it so long.
	Sync func(patience time.Duration) error
}

// in adds the repository to a text, for the user, who may be asked about several.
func (r *Served) in(text string) string {
	if r.Name == "" {
		return text
	}
	return text + " (repository " + r.Name + ")"
}

// A server answers for one repository.
type server struct {
	Host
	repository Served
	turn       chan struct{} // one push or fetch at a time
	hub        *hub          // which all share
	fetched    time.Time     // when the host last fetched; for whoever has the turn
}

// Handler serves all repositories. Most sandboxes never ask: it is made for the first who does.
func Handler(h Host, all func() []Served) http.Handler {
	made := sync.OnceValue(func() http.Handler { return newHandler(h, all()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
}

func newHandler(h Host, all []Served) http.Handler {
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
