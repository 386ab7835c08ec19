package origin

import (
	"context"

	"github.com/cofferhq/coffer/internal/git"
)

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
