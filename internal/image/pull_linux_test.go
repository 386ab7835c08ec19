package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cofferhq/coffer/internal/image/imagetest"
	"github.com/google/go-containerregistry/pkg/authn"
)

// serve is a registry on this machine.
func serve(t *testing.T, g *imagetest.Registry) (host string) {
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

var base = imagetest.Tar(file{Name: "etc/os", Data: "test"})

func TestRegistry(t *testing.T) {
	i := imagetest.New([]string{"PATH=/x", "COFFER_SANDBOX=no", "bad", "A=b"}, base, imagetest.Tar(file{Name: "second", Data: "2"}), imagetest.Tar(file{Name: "third", Data: "3"}))
	single := i.Manifest
	i.Index()
	g := &imagetest.Registry{Images: map[string]*imagetest.Image{"team/tools:1": i}, Token: "t0ken", User: "me:pa:ss"}
	host, s, o := serve(t, g), store(t), Options{Home: t.TempDir()}
	ref := reference(t, host+"/team/tools:1")
	if _, err := s.Pull(t.Context(), ref, o); err == nil || !strings.Contains(err.Error(), "does not give it out") {
		t.Fatalf("without credentials: %v", err)
	}
	login(t, o.Home, fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:pa:ss"))))
	var told sync.Map
	o.Tell = func(what string, _, _ int64) { told.Store(what, true) }
	got, err := s.Need(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest.String() != single || strings.Join(got.Env, " ") != "PATH=/x A=b" || show(got.Tree(), "second") == "none" || show(got.Tree(), "third") == "none" || got.Size != 6 {
		t.Errorf("%+v", got)
	}
	if _, ok := told.Load("pulling " + ref.String()); !ok {
		t.Error("nothing was told")
	}
	if left, _ := os.ReadDir(s.dir + "/.blobs"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// From now on nobody is asked, but for a pull.
	asked := 0
	g.Asked = func(string) { asked++ }
	if _, err := s.Need(t.Context(), ref, o); err != nil || asked > 0 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if _, err := s.Pull(t.Context(), reference(t, host+"/team/tools@"+i.Manifest), o); err != nil || asked == 0 {
		t.Errorf("by digest: %v", err)
	}
	all, errs := s.List()
	if len(all) != 1 || len(errs) > 0 || len(all[0].Refs) != 2 {
		t.Errorf("%+v %v", all, errs)
	}
	if err := s.Remove(t.Context(), got.Digest.String(), nil); err != nil {
		t.Error(err)
	}
	if _, err := s.Find(ref); !errors.Is(err, ErrNotHere) {
		t.Error(err)
	}
}

func login(t *testing.T, home, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(home+"/.docker", 0o700), os.WriteFile(home+"/.docker/config.json", []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// A helper is asked if it is not where sandboxes write.
func TestHelper(t *testing.T) {
	home, bin := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER_CONFIG", "")
	login(t, home, `{"credHelpers": {"r.example": "test"}, "auths": {}}`)
	script := "#!/bin/sh\nread s || :\n[ \"$1 $s\" = 'get r.example' ] && echo '{\"Username\": \"u\", \"Secret\": \"s\"}'\n"
	if err := os.WriteFile(bin+"/docker-credential-test", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if c, err := (Options{Home: home}).credentials(t.Context(), "r.example"); err != nil || c != (authn.AuthConfig{Username: "u", Password: "s"}) {
		t.Errorf("%v, %v", c, err)
	}
	if c, err := (Options{Home: home}).credentials(t.Context(), "other.example"); err != nil || c != (authn.AuthConfig{}) {
		t.Errorf("%v, %v", c, err)
	}
	o := Options{Home: home, Written: func() []string { return []string{bin} }}
	if c, err := o.credentials(t.Context(), "r.example"); err == nil {
		t.Errorf("a program of a sandbox's was run: %v", c)
	}
}

// What is not what it should be is not used, and nothing of it is left; what is right is kept
// for the next time.
func TestWrongParts(t *testing.T) {
	i := imagetest.New(nil, base, imagetest.Tar(file{Name: "x", Data: strings.Repeat("x", 5000)}))
	var layer string
	for d, data := range i.Blobs {
		if len(data) > 5000 {
			layer = d
		}
	}
	right := i.Blobs[layer]
	g := &imagetest.Registry{Images: map[string]*imagetest.Image{"a:1": i}}
	s, ref := store(t), reference(t, serve(t, g)+"/a:1")
	g.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		for strings.HasSuffix(r.URL.Path, layer) { // it is the last
			if all, _ := filepath.Glob(s.dir + "/.blobs/[0-9a-f]*"); len(all) == 2 {
				break
			}
		}
		return false
	}
	for name, data := range map[string][]byte{
		"other": append([]byte("y"), right[1:]...), "longer": append(right[:len(right):len(right)], 0), "shorter": right[:len(right)-1], "empty": {},
	} {
		i.Blobs[layer] = data
		if _, err := s.Pull(t.Context(), ref, Options{}); err == nil {
			t.Errorf("%s was taken", name)
		}
		if _, err := s.Find(ref); !errors.Is(err, ErrNotHere) {
			t.Error(err)
		}
		whole(t, s)
	}
	i.Blobs[layer] = right
	var again []string
	g.Asked = func(path string) { again = append(again, path) }
	if _, err := s.Pull(t.Context(), ref, Options{}); err != nil {
		t.Fatal(err)
	}
	if len(again) != 2 {
		t.Errorf("fetched once more: %v", again)
	}
	pinned := strings.TrimSuffix(ref.String(), ":1") + "@" + imagetest.Digest([]byte("other"))
	i.Blobs[imagetest.Digest([]byte("other"))] = i.Blobs[i.Manifest]
	if _, err := s.Pull(t.Context(), reference(t, pinned), Options{}); err == nil || !strings.Contains(err.Error(), "has the digest") {
		t.Errorf("another manifest was taken: %v", err)
	}
}

// whole wants nothing half-made.
func whole(t *testing.T, s *Store) {
	t.Helper()
	filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if strings.HasPrefix(name, newName) || strings.HasPrefix(name, goneName) || strings.HasPrefix(name, "part-") {
			t.Errorf("left: %s", path)
		}
		return nil
	})
}

// Who gives up leaves nothing, and who waits for the same image gets it.
func TestGivenUp(t *testing.T) {
	i := imagetest.New(nil, base)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	g := &imagetest.Registry{Images: map[string]*imagetest.Image{"a:1": i}}
	g.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		w.Write([]byte("some"))
		http.NewResponseController(w).Flush()
		cancel(why)
		<-r.Context().Done()
		return true
	}
	s, ref := store(t), reference(t, serve(t, g)+"/a:1")
	if _, err := s.Pull(ctx, ref, Options{}); !errors.Is(err, why) {
		t.Error(err)
	}
	whole(t, s)
	var mu sync.Mutex
	asked := map[string]int{}
	other := &imagetest.Registry{Images: g.Images, Asked: func(path string) { mu.Lock(); asked[path]++; mu.Unlock() }}
	ref = reference(t, serve(t, other)+"/a:1")
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := s.Pull(t.Context(), ref, Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for path, n := range asked {
		if strings.Contains(path, "/blobs/") && n != 1 {
			t.Errorf("%s was fetched %d times", path, n)
		}
	}
	whole(t, s)
}

// Credentials, and anything else, go nowhere without encryption but to this machine.
func TestElsewhere(t *testing.T) {
	g := newGuard(reference(t, "r.example/a:1"))
	for _, where := range []string{"http://cdn.example/x", "http://r.example/v2/", "file:///etc/passwd"} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", where, nil)
		if _, err := g.RoundTrip(r); err == nil || !strings.Contains(err.Error(), "without encryption") {
			t.Errorf("%s: %v", where, err)
		}
	}
	if err := onlyLoopback("tcp", "192.0.2.1:80", nil); err == nil {
		t.Error("another machine is asked without encryption")
	}
	if err := onlyLoopback("tcp", "127.0.0.1:80", nil); err != nil {
		t.Error(err)
	}
}

// A registry that sends us elsewhere for a part does not send our login there.
func TestSentElsewhere(t *testing.T) {
	i := imagetest.New(nil, base)
	parts := &imagetest.Registry{Images: map[string]*imagetest.Image{"a:1": i}}
	seen := make(chan string, 10)
	parts.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		seen <- r.Header.Get("Authorization")
		return false
	}
	elsewhere := serve(t, parts)
	g := &imagetest.Registry{Images: parts.Images, Token: "t0ken"}
	g.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		http.Redirect(w, r, "http://"+elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	if _, err := store(t).Pull(t.Context(), reference(t, serve(t, g)+"/a:1"), Options{}); err != nil {
		t.Fatal(err)
	}
	if close(seen); len(seen) == 0 {
		t.Error("nobody was sent elsewhere")
	}
	for login := range seen {
		if login != "" {
			t.Errorf("the login went along: %s", login)
		}
	}
}

// A zstd layer is bounded like any other: by what comes out of it, and by the memory it asks for.
func TestZstdBounds(t *testing.T) {
	for name, layer := range map[string][]byte{
		"bomb":   imagetest.Zstd(make([]byte, 64<<20)),
		"window": {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00}, // of two terabytes
		"cut":    imagetest.Zstd(base)[:40],
	} {
		r, err := decompress(bytes.NewReader(layer))
		if err != nil {
			continue
		}
		left := int64(1 << 20)
		if n, err := io.Copy(io.Discard, &bounded{r, &left}); err == nil || n > 1<<20 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		r.Close()
	}
}

func TestLocal(t *testing.T) {
	dir := t.TempDir()
	i := imagetest.New(nil, base)
	var entries []file
	for name, data := range i.Files("one") {
		entries = append(entries, file{Name: name, Data: string(data)})
	}
	layer := imagetest.Tar(file{Name: "from/docker", Data: "d"})
	old := imagetest.New(nil, layer)
	config := ""
	for _, data := range old.Blobs {
		if strings.Contains(string(data), "diff_ids") {
			config = string(data)
		}
	}
	save := imagetest.Tar(file{Name: "c.json", Data: config}, file{Name: "l/layer.tar", Data: string(layer)}, file{Name: "m/layer.tar", Link: "../l/layer.tar"},
		file{Name: "manifest.json", Data: `[{"Config": "c.json", "Layers": ["m/layer.tar"]}]`})
	if err := errors.Join(i.Write(dir+"/oci", "one"), os.WriteFile(dir+"/oci.tar", imagetest.Tar(entries...), 0o600), os.WriteFile(dir+"/docker.tar", save, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := store(t)
	for text, file := range map[string]string{
		"oci:oci": "etc/os", "oci:oci:one": "etc/os", "oci-archive:oci.tar": "etc/os", "docker-archive:oci.tar:one": "etc/os", "docker-archive:docker.tar": "from/docker",
		"oci:oci:two": "", "oci:none": "", "oci-archive:docker.tar": "", "oci-archive:oci": "",
	} {
		got, err := s.Need(t.Context(), reference(t, text).In(dir, "/home"), Options{})
		if (err == nil) != (file != "") {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil && show(got.Tree(), file) == "none" {
			t.Errorf("%s has no %s", text, file)
		}
	}
	// A link in the directory that names are relative to leads nowhere else.
	inner := filepath.Join(dir, "inner")
	if err := errors.Join(os.Mkdir(inner, 0o700), os.Symlink("../oci", inner+"/oci"), os.Symlink(dir+"/oci.tar", inner+"/oci.tar")); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"oci:oci", "oci-archive:oci.tar"} {
		if _, err := s.Need(t.Context(), reference(t, text).In(inner, "/home"), Options{}); err == nil {
			t.Errorf("%s was reached by a link", text)
		}
		if _, err := s.Need(t.Context(), reference(t, text).In(inner+"/other", "/home").In(dir, "/home"), Options{}); err == nil {
			t.Errorf("%s is nowhere", text)
		}
	}
	if _, err := s.Need(t.Context(), reference(t, "oci:"+inner+"/oci").In("/elsewhere", "/home"), Options{}); err != nil {
		t.Errorf("by a path of the user's: %v", err)
	}
	whole(t, s)
	if gone, err := s.Prune(t.Context(), nil, func(i *Image) bool { return strings.HasPrefix(i.Refs[0], "docker-archive:"+dir+"/docker.tar") }); err != nil || len(gone) != 1 {
		t.Errorf("%v, %v", gone, err)
	}
}
