package image

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Kinds of local sources, as they begin a reference.
const (
	ociDir        = "oci"
	ociArchive    = "oci-archive"
	dockerArchive = "docker-archive"
)

// hub is the registry of names without one; [name.DefaultRegistry] is where it answers.
const hub = "docker.io"

// maxReference bounds what can be a reference.
const maxReference = 1024

// A Reference names an image in a registry, or in a file or directory of this machine.
type Reference struct {
	kind   string // of a local source; "" for a registry
	file   string // where that is
	below  string // a directory that no link leads out of on the way there
	host   string // of a registry, with its port
	path   string
	tag    string
	digest v1.Hash
}

// Parse reads [HOST[:PORT]/]PATH[:TAG][@DIGEST], or oci:DIR, oci-archive:FILE, docker-archive:FILE,
// each with or without :TAG.
func Parse(text string) (r Reference, err error) {
	if err := plain(text); err != nil {
		return r, wrong(text, err.Error())
	}
	for _, kind := range []string{ociDir, ociArchive, dockerArchive} {
		if rest, ok := strings.CutPrefix(text, kind+":"); ok {
			return parseLocal(kind, rest, text)
		}
	}
	rest, digest, pinned := strings.Cut(text, "@")
	if pinned {
		if r.digest, err = parseDigest(digest); err != nil {
			return r, wrong(text, err.Error())
		}
	}
	t, err := name.NewTag(rest, name.WithDefaultTag(""))
	if err != nil || !tidy(t) {
		return r, wrong(text, "it is not [HOST/]PATH[:TAG] in small letters, digits, and . _ - between them")
	}
	if r.host, r.path, r.tag = t.RegistryStr(), t.RepositoryStr(), t.TagStr(); r.host == name.DefaultRegistry {
		r.host = hub
	}
	if r.tag == "" && !pinned {
		r.tag = "latest"
	}
	return r, nil
}

// tidy says whether a name means nothing else in the path of a URL.
func tidy(t name.Tag) bool {
	for part := range strings.SplitSeq(t.RepositoryStr(), "/") {
		if part == "" || strings.Contains(part, "..") || strings.ContainsAny(part[:1]+part[len(part)-1:], "._-") {
			return false
		}
	}
	host := t.RegistryStr()
	return strings.Trim(host, letters+capital+digits+".-:[]") == "" && host[0] != '.' && host[0] != '-' && (t.TagStr() == "" || isTag(t.TagStr()))
}

func parseLocal(kind, rest, text string) (r Reference, err error) {
	r = Reference{kind: kind, file: rest}
	if i := strings.LastIndexByte(rest, ':'); i > 0 && isTag(rest[i+1:]) {
		r.file, r.tag = rest[:i], rest[i+1:]
	}
	if r.file == "" {
		return r, wrong(text, "it names no file")
	}
	return r, nil
}

func wrong(text, why string) error {
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	how := "write it like debian:12, registry.example.com/team/tools:1.2, or oci:DIR"
	if scheme, _, ok := strings.Cut(text, "://"); ok && isTag(scheme) {
		how = "leave out " + scheme + "://"
	} else if text != "" && strings.Contains("./~", text[:1]) || strings.HasSuffix(text, "/") {
		how = localHint
	}
	return ui.Error(fmt.Sprintf("%q is not the name of an image: %s", text, why), how)
}

// plain refuses what cannot be shown and filed.
func plain(text string) error {
	if text == "" {
		return fmt.Errorf("it is empty")
	}
	if len(text) > maxReference {
		return fmt.Errorf("it is too long")
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("it has characters in it that cannot be shown")
	}
	return nil
}

// Local says whether the image is a file or directory of this machine.
func (r Reference) Local() bool { return r.kind != "" }

// In makes the name of a file absolute: ~/ is the home, other names are relative to dir, in which a
// sandbox may write.
func (r Reference) In(dir, home string) Reference {
	if r.kind == "" {
		return r
	}
	if rest, ok := strings.CutPrefix(r.file, "~/"); ok {
		r.file = filepath.Join(home, rest)
	} else if !filepath.IsAbs(r.file) {
		r.file = filepath.Join(dir, r.file)
	}
	if r.file = filepath.Clean(r.file); safepath.Within(r.file, dir) {
		r.below = dir
	}
	return r
}

// String is the short form of the reference; [Parse] reads the same from it.
func (r Reference) String() string {
	if r.kind != "" {
		text := r.kind + ":" + r.file
		if r.tag != "" {
			text += ":" + r.tag
		}
		return text
	}
	text := r.host + "/" + r.path
	if r.host == hub {
		text = r.short()
	}
	if r.tag != "" {
		text += ":" + r.tag
	}
	if r.digest != (v1.Hash{}) {
		text += "@" + r.digest.String()
	}
	return text
}

// Pinned is the reference to exactly the image that a name stood for, if there is one.
func Pinned(name, digest string) string {
	r, err := Parse(name)
	d, wrong := parseDigest(digest)
	if err != nil || wrong != nil || r.Local() {
		return name
	}
	r.tag, r.digest = "", d
	return r.String()
}

// short is the name without the default registry, if that is clear.
func (r Reference) short() string {
	path, own := strings.CutPrefix(r.path, "library/")
	switch first, _, deep := strings.Cut(path, "/"); {
	case own && !deep && path != ociDir && path != ociArchive && path != dockerArchive:
		return path
	case !own && deep && first != "localhost" && !strings.Contains(first, "."):
		return path
	}
	return r.host + "/" + r.path
}

// Where is the file or the registry that a pull reads.
func (r Reference) Where() string {
	if r.kind != "" {
		return r.file
	}
	return r.host
}

// loopback says whether the registry is on this machine, the only one that is used without TLS.
func (r Reference) loopback() bool {
	host := r.host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// base is the URL of the registry's API.
func (r Reference) base() string {
	switch {
	case r.loopback():
		return "http://" + r.host + "/v2/"
	case r.host == hub:
		return "https://" + name.DefaultRegistry + "/v2/"
	}
	return "https://" + r.host + "/v2/"
}

// named is the tag or digest in the URL.
func (r Reference) named() string {
	if r.digest != (v1.Hash{}) {
		return r.digest.String()
	}
	return r.tag
}

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	capital = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

func isTag(s string) bool {
	return s != "" && len(s) <= 128 && s[0] != '.' && s[0] != '-' && strings.Trim(s, letters+capital+digits+"._-") == ""
}

// parseDigest reads a SHA-256 digest, the only kind in use.
func parseDigest(s string) (v1.Hash, error) {
	d, err := v1.NewHash(s)
	if err != nil || d.Algorithm != "sha256" {
		return v1.Hash{}, fmt.Errorf("want %s and 64 digits for a digest", sha)
	}
	return d, nil
}

const sha = "sha256:"

// IsDigest says whether a text is a digest.
func IsDigest(s string) bool { _, err := parseDigest(s); return err == nil }
