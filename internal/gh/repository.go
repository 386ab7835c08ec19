package gh

import (
	"net/url"
	"strings"

	"github.com/cofferhq/coffer/internal/hint"
)

// A Repository is one on GitHub, or on a server of the same kind.
type Repository struct{ Host, Owner, Name string }

// String is how gh is told of it.
func (r Repository) String() string { return r.Host + "/" + r.Owner + "/" + r.Name }

// Same says whether two are the same one; letters count alike there.
func (r Repository) Same(other Repository) bool { return strings.EqualFold(r.String(), other.String()) }

// ParseURL finds the repository that the URL of a remote means.
func ParseURL(remote string) (r Repository, err error) {
	host, path := "", ""
	if u, parseErr := url.Parse(remote); parseErr == nil && u.Host != "" {
		switch u.Scheme {
		case "https", "http", "ssh", "git", "git+ssh":
			host, path = u.Hostname(), u.Path
		}
	} else if before, after, ok := strings.Cut(remote, ":"); ok && !strings.Contains(before, "/") { // user@host:path
		host, path = before[strings.LastIndexByte(before, '@')+1:], after
	}
	host = strings.ToLower(host)
	if host == "ssh.github.com" || host == "www.github.com" { // other doors of the same house
		host = "github.com"
	}
	owner, name, _ := strings.Cut(strings.Trim(path, "/"), "/")
	r = Repository{host, owner, strings.TrimSuffix(name, ".git")}
	if !isName(r.Host, ".-") || !strings.Contains(r.Host, ".") || !isName(r.Owner, "-_.") || !isName(r.Name, "-_.") {
		return Repository{}, hint.New("the remote of the repository outside is not one that gh knows", "gh works where the remote is on GitHub, or on a server of the same kind")
	}
	return r, nil
}

func isName(s, more string) bool {
	return s != "" && len(s) <= 200 && s[0] != '-' && s[0] != '.' && strings.Trim(s, letters+digits+more) == ""
}
