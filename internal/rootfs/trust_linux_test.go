package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each layout has its bundle in a place of its own, with links to it. A link leads nowhere out of
// an image.
func TestTrust(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("host's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file  string
		links map[string]string
		want  string
	}{
		"debian": {file: "etc/ssl/certs/ca-certificates.crt", want: "/etc/ssl/certs/ca-certificates.crt"},
		"alpine": {file: "etc/ssl/certs/ca-certificates.crt", links: map[string]string{"etc/ssl/cert.pem": "certs/ca-certificates.crt"}, want: "/etc/ssl/certs/ca-certificates.crt"},
		"fedora": {file: "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", links: map[string]string{
			"etc/pki/tls/certs/ca-bundle.crt": "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/pki/tls/cert.pem": "certs/ca-bundle.crt",
		}, want: "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
		"suse":    {file: "var/lib/ca-certificates/ca-bundle.pem", links: map[string]string{"etc/ssl/ca-bundle.pem": "/var/lib/ca-certificates/ca-bundle.pem"}, want: "/var/lib/ca-certificates/ca-bundle.pem"},
		"hostile": {links: map[string]string{"etc/ssl/cert.pem": secret, "etc/ssl/ca-bundle.pem": "../../../../../../../.." + secret}},
		"none":    {},
	} {
		tree := t.TempDir()
		put := func(path string, make func(string) error) {
			path = filepath.Join(tree, path)
			err := os.MkdirAll(filepath.Dir(path), 0o755)
			if err == nil {
				err = make(path)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if c.file != "" {
			put(c.file, func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o644) })
		}
		for at, to := range c.links {
			put(at, func(path string) error { return os.Symlink(to, path) })
		}
		var p Plan
		if err := p.trust(View{Image: tree, Authority: []byte("ours\n")}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := map[string]string{}
		for _, s := range p.Steps {
			if strings.Contains(s.Data, "host's") {
				t.Errorf("%s: %+v", name, s)
			}
			got[s.Do+" "+s.Target] = s.Data
		}
		bundle := "ours\n"
		if c.want != "" {
			bundle = "theirs\nours\n"
			if got["replace "+c.want] != bundle || len(got) != 3 {
				t.Errorf("%s: %v", name, got)
			}
		} else if len(got) != 2 {
			t.Errorf("%s: %v", name, got)
		}
		if got["write "+Bundle] != bundle || got["write "+Authority] != "ours\n" {
			t.Errorf("%s: %v", name, got)
		}
	}
	var p Plan
	if err := p.trust(View{}); err != nil || len(p.Steps) > 0 {
		t.Errorf("without an authority: %v, %v", p.Steps, err)
	}
}
