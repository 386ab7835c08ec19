package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

const (
	// Authority is the certificate of the sandbox's own authority inside.
	Authority = Own + "/authority.pem"
	// Bundle is that one with those that the system trusts.
	Bundle = Own + "/authorities.pem"

	maxBundle = 8 << 20
)

// bundles are where systems have the certificates that they trust, in one file.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
	"/etc/ssl/cert.pem",                                 // Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora
	"/etc/pki/tls/cert.pem",                             // Fedora
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, Arch
	"/etc/ssl/ca-bundle.pem",                            // SUSE
	"/var/lib/ca-certificates/ca-bundle.pem",            // SUSE
}

// trust lays a file with one certificate more over each bundle of the view. The system itself
// stays as it is.
func (p *Plan) trust(v View) error {
	if len(v.Authority) == 0 {
		return nil
	}
	var first []byte
	var done []string
	for _, path := range bundles {
		at, text, err := readBundle(v.Image, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("read the certificates in %s: %w", path, err)
		case slices.Contains(done, at):
			continue
		}
		text = append(bytes.TrimRight(text, "\n"), '\n')
		text = append(text, v.Authority...)
		if len(done) == 0 {
			first = text
		}
		done = append(done, at)
		p.add(Step{Do: Replace, Target: at, Data: string(text), Create: true, Optional: true})
	}
	if len(done) == 0 {
		first = v.Authority
	}
	p.add(
		Step{Do: Write, Target: Authority, Data: string(v.Authority)},
		Step{Do: Write, Target: Bundle, Data: string(first)},
	)
	return nil
}

// readBundle reads a file of the host's system or of an image's tree, of which links lead nowhere
// else, and says where it really is.
func readBundle(tree, path string) (at string, text []byte, err error) {
	if tree == "" {
		tree = "/"
	}
	top, err := safepath.OpenDir(tree)
	if err != nil {
		return "", nil, err
	}
	defer top.Close()
	f, err := safepath.Open(top, path[1:], unix.O_RDONLY|unix.O_NONBLOCK, safepath.InRoot)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	link := func(f *os.File) (string, error) { return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())) }
	root, err := link(top)
	if err == nil {
		at, err = link(f)
	}
	if err != nil {
		return "", nil, err
	}
	text, err = safepath.ReadFile(top, strings.TrimPrefix(strings.TrimPrefix(at, root), "/"), maxBundle)
	return "/" + strings.TrimPrefix(strings.TrimPrefix(at, root), "/"), text, err
}
