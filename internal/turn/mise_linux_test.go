package turn

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// toolSite has tools for mise: NAME-VERSION.tar.gz is one that says its name and version,
// and node is there as its makers have it.
func toolSite(w http.ResponseWriter, q *http.Request) {
	file := path.Base(q.URL.Path)
	switch base, ok := strings.CutSuffix(file, ".tar.gz"); {
	case ok:
		_, _ = w.Write(toolArchive(base))
	case file == "index.json":
		fmt.Fprint(w, `[{"version":"v20.1.0","date":"2023-05-03","files":["linux-arm64","linux-x64"],"npm":"9.6.4","lts":false,"security":false}]`)
	case file == "SHASUMS256.txt":
		version := path.Base(path.Dir(q.URL.Path))
		for _, arch := range []string{"x64", "arm64"} {
			base := "node-" + version + "-linux-" + arch
			fmt.Fprintf(w, "%x  %s.tar.gz\n", sha256.Sum256(toolArchive(base)), base)
		}
	default:
		http.NotFound(w, q)
	}
}

// toolArchive has one program in it.
func toolArchive(base string) []byte {
	name, version, _ := strings.Cut(base, "-")
	script := fmt.Sprintf("#!/bin/sh\necho %s %s at \"$0\"\n", name, version)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	_ = t.WriteHeader(&tar.Header{Name: base + "/bin/" + name, Mode: 0o755, Size: int64(len(script))})
	_, _ = t.Write([]byte(script))
	t.Close()
	z.Close()
	return out.Bytes()
}

const toolHost = "tools.turn.example"

// The real mise: a project's tools that the user has are there inside, read-only, and the
// others are installed there; by a mise.toml and by a .tool-versions.
func TestRealMise(t *testing.T) {
	dir := os.Getenv("COFFER_AGENTS")
	if dir == "" {
		t.Skip("COFFER_AGENTS names no directory with mise in it: see 'make test-agents'")
	}
	t.Run("mise", func(t *testing.T) {
		bin := filepath.Join(dir, "mise", "node_modules", ".bin")
		if !exists(filepath.Join(bin, "mise")) {
			t.Skip("mise is not in " + dir)
		}
		each(t, func(t *testing.T, s *stage) {
			s.world.Site(toolHost, http.HandlerFunc(toolSite))
			s.put(filepath.Join(s.Home, "ca.pem"), s.world.CA, 0o644)
			s.put(filepath.Join(s.Home, ".config/coffer/config.toml"), []byte(`
home.files = ["~/ca.pem"]
env.set.SSL_CERT_FILE = "`+s.Home+`/ca.pem"
env.set.MISE_NODE_MIRROR_URL = "https://`+toolHost+`/"
env.set.MISE_NODE_GPG_VERIFY = "0"
[[network.rules]]
name = "tools"
allow = ["`+toolHost+`"]
`), 0o644)
			s.own(s.Home)
			s.env = append(s.env, "PATH="+bin+":"+os.Getenv("PATH"), "SSL_CERT_FILE="+filepath.Join(s.Home, "ca.pem"))

			s.commit("mise.toml", "[tools]\n"+httpTool("htool", "1.0.0"))
			s.mise("install")
			s.commit("mise.toml", "[tools]\n"+httpTool("htool", "1.0.0")+httpTool("ntool", "2.0.0"))
			both(s, "one")

			// The same by the file of asdf, which says no more than names and versions.
			s.git("rm", "-q", "mise.toml")
			s.commit(".tool-versions", "http:htool 1.0.0\nnode 20.1.0\n")
			out := s.run("exec", "--create", "--name", "two", "--", "sh", "-c", "htool; node")
			for _, want := range []string{"htool 1.0.0 at " + s.Home + "/.local/share/mise/installs/", "node v20.1.0-linux-"} {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
		})
	})
}

// both wants a tool of the host's and one that is installed inside, where it was not known
// yet, and nothing of it on the host.
func both(s *stage, name string) {
	s.t.Helper()
	out := s.run("exec", "--create", "--name", name, "--", "sh", "-c", "htool; ntool; mise ls; touch ~/.local/share/mise/installs/x; true")
	for _, want := range []string{
		"set up: mise install", "htool 1.0.0 at " + s.Home + "/.local/share/mise/installs/", "ntool 2.0.0 at " + s.Home + "/.local/share/coffer/mise/installs/",
		"Read-only file system",
	} {
		if !strings.Contains(out, want) {
			s.t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(s.Home, ".local/share/mise/installs/*ntool*")); len(found) > 0 {
		s.t.Errorf("the host has %q", found)
	}
}

func httpTool(name, version string) string {
	return fmt.Sprintf("\"http:%s\" = { version = %q, url = \"https://%s/%s-{{ version }}.tar.gz\", strip_components = 1, bin_path = \"bin\" }\n", name, version, toolHost, name)
}

// commit puts a file into the repository.
func (s *stage) commit(name, text string) {
	s.t.Helper()
	s.put(filepath.Join(s.Work, name), []byte(text), 0o644)
	s.own(s.Work)
	s.git("add", "-A")
	s.git("commit", "-qm", name)
}

// mise runs the user's own, outside.
func (s *stage) mise(args ...string) {
	s.t.Helper()
	c := s.Program(filepath.Join(os.Getenv("COFFER_AGENTS"), "mise/node_modules/.bin/mise"), args...)
	c.Env = append(append(c.Env, s.env...), "MISE_YES=1", "MISE_TRUSTED_CONFIG_PATHS="+s.Work)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("mise %q: %v\n%s", args, err, out)
	}
}
