package origin

import (
	"context"

	"github.com/cofferhq/coffer/internal/gh"
	"github.com/cofferhq/coffer/internal/git"
)

// GitHub is where a sandbox's work goes. In most repositories it is all one; who works
// with a fork pushes to that, and opens pull requests in the project.
type GitHub struct {
	To     gh.Repository // where pull requests are
	From   gh.Repository // where pushed branches are
	Remote string        // what the user's git calls that
}

// OnGitHub finds out which repositories gh is to be told of. reach are directories that
// the sandbox can write.
func OnGitHub(ctx context.Context, b *git.Bridge, reach []string) (g GitHub, err error) {
	project, name, err := b.Resolved(ctx)
	if err != nil {
		return g, err
	}
	url, err := b.RemoteURL(ctx, project, false)
	if err != nil {
		return g, hostError{err}
	}
	aliases := gh.NewAliases(b.Writable(reach))
	if g.To, err = gh.ParseURL(aliases.Replace(ctx, url)); err != nil {
		return g, &gh.RemoteError{Remote: project, URL: git.Redact(url)}
	}
	if g.Remote, err = b.Remote(ctx); err != nil {
		return g, err
	}
	g.From = g.To
	for _, push := range []bool{true, false} { // it may be another one to push to
		url, err := b.RemoteURL(ctx, g.Remote, push)
		if err != nil || g.Remote == project {
			break
		}
		if r, err := gh.ParseURL(aliases.Replace(ctx, url)); err == nil && r.Host == g.To.Host {
			g.From = r
			break
		}
	}
	if name != "" {
		g.To, err = g.To.Named(name)
	}
	return g, err
}
