// Package imagetest makes images for tests, and registries on this machine that have them.
package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// A File is an entry of a layer. With Link it is a symbolic link, or what Type says.
type File struct {
	Name, Data, Link string
	Mode             int64 // 0644 if 0
	Type             byte  // of package tar
}

// Tar is an archive of files.
func Tar(files ...File) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Mode: f.Mode, Typeflag: f.Type, Linkname: f.Link, Size: int64(len(f.Data)), Format: tar.FormatPAX}
		switch {
		case f.Type != 0:
		case f.Link != "":
			h.Typeflag = tar.TypeSymlink
		case strings.HasSuffix(f.Name, "/"):
			h.Typeflag = tar.TypeDir
		default:
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 && h.Typeflag == tar.TypeDir {
			h.Mode = 0o755
		} else if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		if _, err := w.Write([]byte(f.Data)); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Gzip compresses.
func Gzip(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// Digest is the hash by which something is known.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// An Image has all its parts, by their digests.
type Image struct {
	Blobs    map[string][]byte
	Manifest string // a digest
}

// descriptor is one as in a manifest.
func descriptor(kind string, data []byte) map[string]any {
	return map[string]any{"mediaType": kind, "digest": Digest(data), "size": len(data)}
}

const manifestKind = "application/vnd.oci.image.manifest.v1+json"

// Zstd compresses.
func Zstd(data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(data, nil)
}

// New makes an image of layers, which are compressed with gzip, not at all, and with zstd.
func New(env []string, layers ...[]byte) *Image {
	i := &Image{Blobs: map[string][]byte{}}
	var list []any
	var diffs []string
	for n, l := range layers {
		diffs = append(diffs, Digest(l))
		kind := "application/vnd.oci.image.layer.v1.tar"
		switch n % 3 {
		case 0:
			l, kind = Gzip(l), kind+"+gzip"
		case 2:
			l, kind = Zstd(l), kind+"+zstd"
		}
		i.Blobs[Digest(l)] = l
		list = append(list, descriptor(kind, l))
	}
	config := marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH, "config": map[string]any{"Env": env, "Entrypoint": []string{"/not-run"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	i.Blobs[Digest(config)] = config
	i.SetManifest(map[string]any{"schemaVersion": 2, "mediaType": manifestKind, "config": descriptor("application/vnd.oci.image.config.v1+json", config), "layers": list})
	return i
}

// SetManifest gives the image another manifest.
func (i *Image) SetManifest(m any) {
	data := marshal(m)
	i.Manifest = Digest(data)
	i.Blobs[i.Manifest] = data
}

// Index puts an index above the image, with one for another machine beside it.
func (i *Image) Index() {
	ours, other := descriptor(manifestKind, i.Blobs[i.Manifest]), descriptor(manifestKind, []byte("{}"))
	ours["platform"] = map[string]any{"os": "linux", "architecture": runtime.GOARCH}
	other["platform"] = map[string]any{"os": "linux", "architecture": "s390x"}
	i.SetManifest(map[string]any{"schemaVersion": 2, "manifests": []any{other, ours}})
}

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// Files are those of an OCI layout with the image.
func (i *Image) Files(tag string) map[string][]byte {
	d := descriptor(manifestKind, i.Blobs[i.Manifest])
	d["annotations"] = map[string]string{"org.opencontainers.image.ref.name": tag}
	files := map[string][]byte{
		"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`),
		"index.json": marshal(map[string]any{"schemaVersion": 2, "manifests": []any{d}}),
	}
	for digest, data := range i.Blobs {
		files["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")] = data
	}
	return files
}

// Write writes an OCI layout.
func (i *Image) Write(dir, tag string) error {
	for name, data := range i.Files(tag) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A Registry has images by name:tag. With a Token, it gives out nothing without one, which is
// to be had for the user's name and password.
type Registry struct {
	Images map[string]*Image
	User   string // NAME:PASSWORD; "" lets everybody have a token
	Token  string
	// Before is called for each request for a part, which it may answer.
	Before func(w http.ResponseWriter, r *http.Request) (answered bool)
	Asked  func(path string) // not of /v2/, where clients ask how to log in
}

func (g *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.Asked != nil && r.URL.Path != "/v2/" {
		g.Asked(r.URL.Path)
	}
	if r.URL.Path == "/token" {
		g.token(w, r)
		return
	}
	if g.Token != "" && r.Header.Get("Authorization") != "Bearer "+g.Token {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test, really"`, r.Host))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/v2/" {
		return
	}
	if g.Before != nil && g.Before(w, r) {
		return
	}
	path, _ := strings.CutPrefix(r.URL.Path, "/v2/")
	for _, kind := range []string{"/manifests/", "/blobs/"} {
		if name, what, ok := strings.Cut(path, kind); ok {
			g.serve(w, name, what)
			return
		}
	}
	http.NotFound(w, r)
}

func (g *Registry) serve(w http.ResponseWriter, name, what string) {
	for full, i := range g.Images {
		repository, tag, _ := strings.Cut(full, ":")
		if repository != name {
			continue
		}
		if tag == what {
			what = i.Manifest
		}
		if data, ok := i.Blobs[what]; ok {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (g *Registry) token(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if g.User != "" && user+":"+password != g.User || r.FormValue("service") != "test, really" || !strings.HasSuffix(r.FormValue("scope"), ":pull") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Write(marshal(map[string]string{"token": g.Token}))
}
