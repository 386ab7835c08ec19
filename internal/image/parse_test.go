package image

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/image/imagetest"
	"github.com/google/go-containerregistry/pkg/name"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"debian": "debian:latest|https://REGISTRY/v2/|library/debian", "debian:12": "debian:12|https://REGISTRY/v2/|library/debian",
		hub + "/library/debian:12": "debian:12|https://REGISTRY/v2/|library/debian",
		"team/tools":               "team/tools:latest|https://REGISTRY/v2/|team/tools",
		"r.example/a/b:1":          "r.example/a/b:1|https://r.example/v2/|a/b", "r.example:8443/a": "r.example:8443/a:latest|https://r.example:8443/v2/|a",
		"localhost/a:1": "localhost/a:1|http://localhost/v2/|a", "127.0.0.1:5000/a:1": "127.0.0.1:5000/a:1|http://127.0.0.1:5000/v2/|a", "[::1]:5000/a:1": "[::1]:5000/a:1|http://[::1]:5000/v2/|a",
		"a@" + someDigest: "a@" + someDigest + "|https://REGISTRY/v2/|library/a", "a:1@" + someDigest: "a:1@" + someDigest + "|https://REGISTRY/v2/|library/a",
	} {
		r, err := Parse(text)
		want = strings.ReplaceAll(want, "REGISTRY", name.DefaultRegistry)
		if got := r.String() + "|" + r.base() + "|" + r.path; err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "A", "a b", "a:", "a@", "a@sha256:12", "a@sha512:" + someDigest[7:], "a/../b", "a//b", "-a", "a-", ":1", "oci:", "r.example/", "r.example:x/a", "a\x1b[m", "https://r.example/a", strings.Repeat("a", 2000), "[::1%lo]:1/a", "a__ _", "./a", "../a", ".a/b", "-a.b/c", "~/a"} {
		if r, err := Parse(bad); err == nil {
			t.Errorf("%q is %+v", bad, r)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"debian:12", "r.example:1/a/b:c@" + someDigest, "oci:a:b", "[::1]:1/a", "oci", "docker.io/a.b/c", "docker.io/localhost/a", "docker.io/library/library/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(r.String()); err != nil || again != r {
			t.Errorf("%q is %+v, and %q is %+v, %v", text, r, r.String(), again, err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	i := imagetest.New([]string{"A=b"}, base0)
	for _, data := range i.Blobs {
		f.Add(data)
	}
	i.Index()
	f.Add(i.Blobs[i.Manifest])
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := parseManifest(data); err == nil {
			_, _ = m.ours()
			for _, d := range m.Layers {
				if !IsDigest(d.Digest.String()) || d.Size < 0 {
					t.Errorf("%+v", d)
				}
			}
		}
		if c, err := parseConfig(data, 1); err == nil && len(c.RootFS.DiffIDs) != 1 {
			t.Errorf("%+v", c)
		}
	})
}

var base0 = imagetest.Tar(imagetest.File{Name: "etc/os", Data: "test"})

// What is read from a layer has names that are relative and lead nowhere else.
func FuzzLayer(f *testing.F) {
	f.Add(imagetest.Tar(imagetest.File{Name: "a/.wh.b"}, imagetest.File{Name: "l", Link: "x"}, imagetest.File{Name: "h", Link: "l", Type: tar.TypeLink}))
	f.Add(imagetest.Gzip(base0))
	f.Add(imagetest.Zstd(base0))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decompress(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer r.Close()
		archive := tar.NewReader(&bounded{r, new(int64(1 << 20))})
		for {
			c, err := next(archive)
			if err != nil {
				return
			}
			for _, path := range []string{c.name, c.link} {
				if c.kind == makeSymlink && path == c.link {
					continue
				}
				for part := range strings.SplitSeq(path, "/") {
					if part == ".." || strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0) {
						t.Errorf("%+v", c)
					}
				}
			}
		}
	})
}
