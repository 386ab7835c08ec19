package image

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/image/imagetest"
)

// What a layer only implies counts like what it names, and what layers have together like what
// one has.
func TestBounds(t *testing.T) {
	tr, err := newTree(filepath.Join(t.TempDir(), "tree"))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	tr.entries = maxEntries - 20
	deep := imagetest.Tar(file{Name: strings.Repeat("a/", 50) + "f", Data: "x"})
	if err := tr.layer(strings.NewReader(string(deep))); !errors.Is(err, errLarge) {
		t.Errorf("directories above a file: %v", err)
	}
	left := int64(10)
	for _, want := range []error{nil, errLarge} {
		if _, err := io.Copy(io.Discard, &bounded{strings.NewReader("123456"), &left}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	p := &pull{ref: reference(t, "a")}
	p.done.Store(maxUnpacked)
	if _, err := (counter{p}).Write([]byte("x")); !errors.Is(err, errLarge) {
		t.Errorf("more than anything has: %v", err)
	}
}

// A registry that refuses at endless length is not listened to, and what it calls encoded is
// taken as it comes.
func TestOddAnswers(t *testing.T) {
	i := imagetest.New(nil, base)
	g := &imagetest.Registry{Images: map[string]*imagetest.Image{"a:1": i}}
	g.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/a/") {
			if strings.Contains(r.URL.Path, "/blobs/") && strings.HasPrefix(string(i.Blobs[filepath.Base(r.URL.Path)]), "\x1f\x8b") {
				w.Header().Set("Content-Encoding", "gzip")
			}
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
	s, host := store(t), serve(t, g)
	if _, err := s.Pull(t.Context(), reference(t, host+"/other:1"), Options{}); err == nil || !strings.Contains(err.Error(), "no such image") {
		t.Error(err)
	}
	if _, err := s.Pull(t.Context(), reference(t, host+"/a:1"), Options{}); err != nil {
		t.Error(err)
	}
}

// What can be read in two ways is not read in either.
func TestAmbiguousManifest(t *testing.T) {
	d := `{"digest": "` + digestOf(nil).String() + `", "size": 1}`
	for text, ok := range map[string]bool{
		`{"schemaVersion": 2, "manifests": [` + d + `]}`:                                      true,
		`{"schemaVersion": 2, "config": ` + d + `, "layers": [` + d + `]}`:                    true,
		`{"schemaVersion": 2, "manifests": [` + d + `], "layers": [` + d + `]}`:               false,
		`{"schemaVersion": 2, "manifests": [` + d + `], "config": ` + d + `, "layers": null}`: false,
	} {
		if _, err := parseManifest([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Who tidies up does not wait for a pull, and takes away what is in the way of one.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	if err := imagetest.New(nil, base).Write(dir+"/oci", "1"); err != nil {
		t.Fatal(err)
	}
	s, ref := store(t), reference(t, "oci:"+dir+"/oci")
	i, err := s.Pull(t.Context(), ref, Options{})
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := s.lock(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	unlock()
	if err := os.Remove(filepath.Join(i.dir, infoName)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pull(t.Context(), ref, Options{}); err != nil {
		t.Error(err)
	}
	if _, err := s.Find(ref); err != nil {
		t.Error(err)
	}
}

// A pull that waits for a prune finds nothing of what was there before.
func TestPullAfterPrune(t *testing.T) {
	dir := t.TempDir()
	if err := imagetest.New(nil, base).Write(dir+"/oci", "1"); err != nil {
		t.Fatal(err)
	}
	s := store(t)
	unlock, err := s.lock(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tell := func(what string, _, _ int64) {
		if strings.HasPrefix(what, "waiting") {
			if err := os.RemoveAll(filepath.Join(s.dir, blobsName)); err != nil {
				t.Error(err)
			}
			unlock()
		}
	}
	if _, err := s.Pull(t.Context(), reference(t, "oci:"+dir+"/oci"), Options{Tell: tell}); err != nil {
		t.Error(err)
	}
}

// A pull that would take the last of a disk ends.
func TestNearlyFull(t *testing.T) {
	for short, want := range map[string]string{"": "<nil>", "less than 1 GiB is free": "the disk is nearly full: less than 1 GiB is free"} {
		c := &careful{ctx: t.Context(), Reader: io.LimitReader(zeros{}, 3*lookEvery), short: func() string { return short }}
		if _, err := io.Copy(io.Discard, c); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
