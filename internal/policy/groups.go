package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Group is a built-in list of targets with a name. Each is short enough to be read
// before it is allowed.
type Group struct {
	Name    string   `json:"name"`
	About   string   `json:"about"`
	Targets []string `json:"targets"`
}

// groups allow what is written here, on the ports of the web unless ports says more.
// Domains are listed whole where all of a domain serves the one purpose; single hosts
// are named where a domain serves others too, or anybody can get a host in it.
var groups = []struct{ name, about, ports, hosts string }{
	{"agents", "APIs and log-in of Claude Code, Codex, Gemini CLI, opencode and pi", "80,443", `
		api.anthropic.com claude.ai claude.com platform.claude.com console.anthropic.com downloads.claude.ai
		api.openai.com auth.openai.com chatgpt.com ab.chatgpt.com
		generativelanguage.googleapis.com cloudcode-pa.googleapis.com oauth2.googleapis.com
		accounts.google.com play.googleapis.com
		opencode.ai *.opencode.ai models.dev`},
	{"git-hosts", "GitHub, GitLab, Bitbucket, Codeberg and SourceHut, over HTTPS and SSH", "22,80,443", `
		github.com *.github.com *.githubusercontent.com
		gitlab.com altssh.gitlab.com
		bitbucket.org *.bitbucket.org
		codeberg.org *.sr.ht`},
	{"npm", "JavaScript packages, and Node.js, Bun and Deno themselves", "80,443", `
		*.npmjs.org *.yarnpkg.com *.pnpm.io jsr.io *.jsr.io nodejs.org *.nodejs.org bun.sh deno.land *.deno.land`},
	{"pypi", "Python packages, and Python itself", "80,443", `
		pypi.org *.pypi.org *.pythonhosted.org *.python.org *.python-poetry.org astral.sh *.astral.sh *.pytorch.org`},
	{"conda", "Conda packages", "80,443", `*.anaconda.org *.anaconda.com *.mamba.pm`},
	{"go", "Go modules and toolchains", "80,443", `
		golang.org *.golang.org go.dev *.go.dev gopkg.in dl.google.com`},
	{"crates", "Rust crates and toolchains", "80,443", `
		crates.io *.crates.io *.rust-lang.org *.rustup.rs`},
	{"maven", "Java packages, Gradle, and where JDKs are", "80,443", `
		*.maven.org *.maven.apache.org *.sonatype.org gradle.org *.gradle.org dl.google.com
		*.foojay.io *.adoptium.net`},
	{"rubygems", "Ruby gems, and Ruby itself", "80,443", `
		rubygems.org *.rubygems.org *.ruby-lang.org`},
	{"composer", "PHP packages and Composer", "80,443", `
		packagist.org *.packagist.org getcomposer.org`},
	{"nuget", ".NET packages and toolchains", "80,443", `*.nuget.org dot.net *.dot.net *.dotnet.microsoft.com`},
	{"hex", "Erlang and Elixir packages", "80,443", `hex.pm *.hex.pm`},
	{"haskell", "Haskell packages and toolchains", "80,443", `*.haskell.org *.stackage.org *.haskellstack.org`},
	{"cpan", "Perl modules", "80,443", `*.cpan.org metacpan.org *.metacpan.org`},
	{"cran", "R packages", "80,443", `*.r-project.org *.rstudio.com *.posit.co *.bioconductor.org`},
	{"julia", "Julia packages and toolchains", "80,443", `*.julialang.org`},
	{"pub", "Dart packages", "80,443", `pub.dev *.pub.dev`},
	{"playwright", "browsers for Playwright's tests", "80,443", `*.playwright.dev playwright.download.prss.microsoft.com`},
	{"alpine", "Alpine Linux packages", "80,443", `*.alpinelinux.org`},
	{"arch", "Arch Linux packages", "80,443", `*.archlinux.org *.pkgbuild.com`},
	{"debian", "Debian packages", "80,443", `*.debian.org`},
	{"fedora", "packages of Fedora, CentOS Stream, AlmaLinux and Rocky Linux, from their own servers", "80,443", `
		*.fedoraproject.org *.centos.org *.almalinux.org *.rockylinux.org`},
	{"opensuse", "openSUSE packages", "80,443", `*.opensuse.org`},
	{"ubuntu", "Ubuntu packages, personal archives included", "80,443", `*.ubuntu.com *.launchpadcontent.net`},
	{"containers", "container images of Docker Hub, GitHub, Quay and Kubernetes", "80,443", `
		*.docker.io *.docker.com ghcr.io *.githubusercontent.com quay.io *.quay.io *.k8s.io`},
	{"homebrew", "Homebrew packages", "80,443", `brew.sh *.brew.sh ghcr.io *.githubusercontent.com`},
	{"mise", "which versions of tools mise can install; the tools are elsewhere", "80,443", `
		mise.jdx.dev mise-versions.jdx.dev mise-java.jdx.dev`},
	{"nix", "Nix packages", "80,443", `nixos.org *.nixos.org`},
}

// Groups returns the built-in groups, sorted by name.
func Groups() []Group {
	list := make([]Group, len(groups))
	for i, g := range groups {
		list[i] = Group{Name: g.name, About: g.about}
		for host := range strings.FieldsSeq(g.hosts) {
			list[i].Targets = append(list[i].Targets, host+":"+g.ports)
		}
	}
	slices.SortFunc(list, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func groupNames() []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.name
	}
	slices.Sort(names)
	return names
}

// findGroup returns a group's targets.
func findGroup(name string) ([]Target, error) {
	for _, g := range groups {
		if g.name != name {
			continue
		}
		var targets []Target
		for host := range strings.FieldsSeq(g.hosts) {
			t, err := ParseTarget(host + ":" + g.ports)
			if err != nil {
				return nil, err
			}
			targets = append(targets, t)
		}
		return targets, nil
	}
	return nil, fmt.Errorf("there is no group %s; there are %s", quote(name), strings.Join(groupNames(), ", "))
}

// Builtin returns a built-in policy:
//
//	none      nothing
//	standard  what development needs: all groups
//	ask       the same, and the user is asked for the rest
//	open      everything, except addresses that have to be named, see [Set.Address]
func Builtin(mode string) (Source, error) {
	s := Source{Origin: "built-in " + mode}
	switch mode {
	case "none":
		s.Default = "deny"
	case "standard":
		s.Default, s.Groups = "deny", groupNames()
	case "ask":
		s.Default, s.Groups = "ask", groupNames()
	case "open":
		s.Default = "allow"
	default:
		return Source{}, fmt.Errorf("there is no network mode %s; there are %s", quote(mode), strings.Join(Modes, ", "))
	}
	return s, nil
}
