package git

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
)

// A repository can have several remotes: the project, which the user fetches from and opens
// pull requests in, and a fork of it, which the user may push to. Either can be called
// origin. Which is which is what git and gh would take, by the same settings.

// Remote is where the user's git would push the sandbox's branch to.
func (b *Bridge) Remote(ctx context.Context) (string, error) {
	r, err := b.settings(ctx)
	if err != nil {
		return "", err
	}
	branch := "branch." + b.Branch + "."
	for _, key := range []string{branch + "pushremote", "remote.pushdefault"} {
		// What names no remote may be there to prevent pushes, so it is no reason to take
		// another one.
		if name := r.config[key]; name != "" && !slices.Contains(r.remotes(), name) {
			return "", ui.Error(fmt.Sprintf("%s in the git config of the repository is %q, which is no remote", key, name),
				fmt.Sprintf("name one, outside the sandbox, with 'git config %s NAME'", key))
		} else if name != "" {
			return r.remote(name)
		}
	}
	return r.remote(r.config[branch+"remote"], "origin")
}

// Project is the remote that the user's work is for: the one that gh was told so of, else
// the one that is called upstream, which is nobody's name for a fork of one's own.
func (b *Bridge) Project(ctx context.Context) (string, error) {
	remote, name, err := b.Resolved(ctx)
	if name == "" {
		return remote, err
	}
	r, err := b.settings(ctx)
	if err != nil {
		return "", err
	}
	return r.project("")
}

// Resolved is Project for gh, which can also be told the project's name, OWNER/REPO, where no
// remote leads there. Then the remote is the one that says so: it is on the same server.
func (b *Bridge) Resolved(ctx context.Context) (remote, name string, err error) {
	r, err := b.settings(ctx)
	if err != nil {
		return "", "", err
	}
	chosen := ""
	for _, remote := range r.remotes() {
		switch said := r.config["remote."+remote+".gh-resolved"]; said {
		case "":
		case "base":
			chosen, name = remote, ""
		default:
			if chosen == "" {
				chosen, name = remote, said
			}
		}
	}
	remote, err = r.project(chosen)
	return remote, name, err
}

// project is the chosen remote, or the one that is the project's by its name.
func (r *Repository) project(chosen string) (string, error) {
	return r.remote(chosen, "upstream", "origin", r.config["remote.pushdefault"])
}

// remotes lists the names of the remotes that the user has in this repository.
func (r *Repository) remotes() (all []string) {
	for key := range r.config {
		if name, ok := strings.CutPrefix(key, "remote."); ok && strings.HasSuffix(name, ".url") {
			all = append(all, strings.TrimSuffix(name, ".url"))
		}
	}
	slices.Sort(all)
	return all
}

// remote is the first of these remotes that there is, or the only one.
func (r *Repository) remote(names ...string) (chosen string, err error) {
	all := r.remotes()
	i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(all, name) })
	switch {
	case i >= 0:
		chosen = names[i]
	case len(all) == 1:
		chosen = all[0]
	case len(all) == 0:
		return "", ui.Error("the repository has no remote", "add one, outside the sandbox, with 'git remote add origin URL'")
	default:
		return "", ui.Error("the repository has several remotes, and none of them is called origin",
			"choose one, outside the sandbox, with 'git config remote.pushDefault NAME'")
	}
	if !ValidRef("refs/remotes/" + chosen + "/x") {
		return "", fmt.Errorf("the remote %q has a name that is not supported", chosen)
	}
	return chosen, nil
}
