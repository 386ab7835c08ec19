package turn

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// registry is an npm registry with one package in it.
type registry struct{ version atomic.Value }

func (r *registry) tarball() []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	// The same bytes every time: npm compares.
	for _, f := range [][2]string{
		{"package/package.json", fmt.Sprintf(`{"name":"pocket","version":%q,"bin":{"pocket":"cli.sh"}}`, r.version.Load())},
		{"package/cli.sh", fmt.Sprintf("#!/bin/sh\necho pocket %s says \"$@\"\n(touch \"$(dirname \"$(readlink -f \"$0\")\")/planted\") 2>&1; exit 0\n", r.version.Load())},
	} {
		_ = w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o755, Size: int64(len(f[1]))})
		_, _ = w.Write([]byte(f[1]))
	}
	w.Close()
	z.Close()
	return out.Bytes()
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	data := r.tarball()
	if strings.HasSuffix(q.URL.Path, ".tgz") {
		_, _ = w.Write(data)
		return
	}
	sum := sha512.Sum512(data)
	v := r.version.Load().(string)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"name": "pocket", "dist-tags": map[string]string{"latest": v},
		"versions": map[string]any{v: map[string]any{
			"name": "pocket", "version": v, "bin": map[string]string{"pocket": "cli.sh"},
			"dist": map[string]string{"tarball": "https://" + q.Host + "/pocket/-/pocket-" + v + ".tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
		}},
	})
}

// An agent that is not on the machine is installed from npm, in a sandbox, once for all; an
// update is there for sandboxes that exist; and none of them can change it.
func TestInstall(t *testing.T) {
	testbed.Needs(t, "npm")
	each(t, func(t *testing.T, s *stage) {
		r := &registry{}
		r.version.Store("1.0.0")
		s.world.Site("npm.turn.example", r)
		s.env = append(s.env, "npm_config_registry=https://npm.turn.example/")
		file := filepath.Join(s.Home, ".config/coffer/config.toml")
		config, err := os.ReadFile(file)
		s.must(err)
		s.must(os.WriteFile(file, append(config, "\n[agents.pocket]\npackage = \"pocket\"\n"...), 0o644))

		out := s.run("ai", "pocket", "--name", "one", "hi")
		for _, want := range []string{"installing pocket from npm", "installed pocket 1.0.0", "pocket 1.0.0 says hi", "Read-only file system"} {
			if !strings.Contains(out, want) {
				t.Errorf("it does not say %q:\n%s", want, out)
			}
		}
		if out = s.run("ai", "pocket", "--name", "two", "again"); strings.Contains(out, "installing") || !strings.Contains(out, "pocket 1.0.0 says again") {
			t.Errorf("the second time:\n%s", out)
		}
		r.version.Store("1.0.1")
		if out = s.run("agents", "update"); !strings.Contains(out, "installed pocket 1.0.1") {
			t.Errorf("the update:\n%s", out)
		}
		if out = s.run("ai", "-m", "one", "after"); !strings.Contains(out, "pocket 1.0.1 says after") {
			t.Errorf("after the update:\n%s", out)
		}
		if out = s.run("agents"); !strings.Contains(out, "1.0.1 (by coffer)") {
			t.Errorf("the listing:\n%s", out)
		}
		if got := s.run("ls", "-q"); len(strings.Fields(got)) != 2 {
			t.Errorf("sandboxes are left: %s", got)
		}
	})
}
