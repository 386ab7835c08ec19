package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/ui"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// A source has the manifests and blobs of an image.
type source interface {
	// manifest is the text that a tag or a digest stands for.
	manifest(ctx context.Context, name string) ([]byte, error)
	// blob is anything else, by its digest. Whoever reads it checks it.
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
	close()
}

func (r Reference) open(ctx context.Context, o Options) (source, error) {
	if r.kind == "" {
		return newRegistry(ctx, r, o)
	}
	s, err := r.openLocal()
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the path is said already
	}
	if err != nil {
		return nil, ui.Hint(fmt.Errorf("read the image %s: %w", r.file, err), "%s", localHint)
	}
	return s, nil
}

// localHint tells the local sources apart.
const localHint = "oci:DIR is a directory with an OCI layout, oci-archive:FILE and docker-archive:FILE are archives"

// lacks explains a missing part of a layout or an archive.
func lacks(name string) error {
	switch name {
	case indexName:
		return ui.Error("it is no OCI layout, for it has no "+name, localHint)
	case savedName:
		return ui.Error("it is not what 'docker save' writes, for it has no "+name, localHint)
	}
	return ui.Error("it has no "+clip(name), "it is not whole: get it here once more")
}

// The files that say what is in an OCI layout, and in what 'docker save' wrote.
const (
	indexName = "index.json"
	savedName = "manifest.json"
)

func (r Reference) openLocal() (source, error) {
	openDir, openFile, name := os.OpenRoot, os.OpenFile, r.file
	if r.below != "" {
		base, err := os.OpenRoot(r.below)
		if err != nil {
			return nil, err
		}
		defer base.Close()
		openDir, openFile, name = base.OpenRoot, base.OpenFile, strings.TrimPrefix(r.file, strings.TrimSuffix(r.below, "/")+"/")
	}
	if r.kind == ociDir {
		root, err := openDir(name)
		if err != nil {
			return nil, err
		}
		return layout{directory{root}}, nil
	}
	f, err := openFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	a, err := openArchive(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	// What docker writes today is both.
	if _, ok := a.entries[indexName]; !ok && r.kind == dockerArchive {
		return saved{a, map[v1.Hash]string{}}, nil
	}
	return layout{a}, nil
}

// files are those of a directory or an archive.
type files interface {
	open(name string) (io.ReadCloser, error)
	close()
}

// directory is an OCI layout in a directory, in which a sandbox may write meanwhile.
type directory struct{ root *os.Root }

func (d directory) close() { d.root.Close() }

func (d directory) open(name string) (io.ReadCloser, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, lacks(name)
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return f, nil
}

// archive is a tar archive, of which it is known where everything begins.
type archive struct {
	f       *os.File
	entries map[string]entry
}

type entry struct {
	at, size int64
	link     string // the entry that it stands for
}

const maxArchiveEntries = 100_000

func openArchive(f *os.File) (*archive, error) {
	a := &archive{f: f, entries: map[string]entry{}}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	return a, a.index()
}

func (a *archive) index() error {
	t := tar.NewReader(a.f)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.New("it is not a tar archive, or not a whole one")
		}
		at, err := a.f.Seek(0, io.SeekCurrent) // the reader reads no further than it must
		if err != nil {
			return err
		}
		name := path.Clean("/" + h.Name)[1:]
		switch h.Typeflag {
		case tar.TypeReg:
			a.entries[name] = entry{at: at, size: h.Size}
		case tar.TypeSymlink:
			a.entries[name] = entry{link: path.Join("/", path.Dir(name), h.Linkname)[1:]}
		}
		if len(a.entries) > maxArchiveEntries {
			return errors.New("it has too many files to be an image")
		}
	}
}

func (a *archive) close() { a.f.Close() }

func (a *archive) open(name string) (io.ReadCloser, error) {
	e, ok := a.entries[name]
	if ok && e.link != "" {
		e, ok = a.entries[e.link]
	}
	if !ok || e.link != "" {
		return nil, lacks(name)
	}
	return io.NopCloser(io.NewSectionReader(a.f, e.at, e.size)), nil
}

func readSmall(f files, name string) ([]byte, error) {
	r, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxManifest+1))
}

// layout is an OCI layout: an index, and a directory of blobs.
type layout struct{ files }

func (l layout) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	return l.open("blobs/sha256/" + d.Digest.Hex)
}

// manifest finds what has the tag, or is the only one.
func (l layout) manifest(_ context.Context, name string) ([]byte, error) {
	if d, err := parseDigest(name); err == nil {
		return readSmall(l, "blobs/sha256/"+d.Hex)
	}
	data, err := readSmall(l, indexName)
	if err != nil {
		return nil, err
	}
	index, err := parseManifest(data)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return data, nil
	}
	var tags []string
	for _, d := range index.Manifests {
		tag := d.Annotations[refName]
		if tag == name || strings.HasSuffix(tag, ":"+name) {
			if err := check(d); err != nil {
				return nil, err
			}
			data, err := readSmall(l, "blobs/sha256/"+d.Digest.Hex)
			if err == nil && digestOf(data) != d.Digest {
				err = errors.New("its manifest is not what its digest says")
			}
			return data, err
		}
		if tag != "" {
			tags = append(tags, clip(tag))
		}
	}
	if len(tags) == 0 {
		return nil, ui.Error(fmt.Sprintf("nothing in it is called %q, nor anything else", name), "leave the tag out")
	}
	return nil, ui.Error(fmt.Sprintf("nothing in it is called %q", name), "it has "+ui.Few(tags))
}

// saved is the older form of 'docker save'. It has no manifest with digests, so one is made: the diff
// IDs of the layers are known.
type saved struct {
	files
	names map[v1.Hash]string
}

func (s saved) manifest(context.Context, string) ([]byte, error) {
	data, err := readSmall(s, savedName)
	if err != nil {
		return nil, err
	}
	var list []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, errManifest
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("it has %d images, and there must be one", len(list))
	}
	text, err := readSmall(s, path.Clean("/" + list[0].Config)[1:])
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(text, len(list[0].Layers))
	if err != nil {
		return nil, err
	}
	m := manifest{SchemaVersion: 2, Config: v1.Descriptor{Digest: digestOf(text), Size: int64(len(text))}}
	s.names[m.Config.Digest] = path.Clean("/" + list[0].Config)[1:]
	for i, name := range list[0].Layers {
		d := c.RootFS.DiffIDs[i]
		m.Layers = append(m.Layers, v1.Descriptor{Digest: d})
		s.names[d] = path.Clean("/" + name)[1:]
	}
	return json.Marshal(m)
}

func (s saved) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	r, err := s.open(s.names[d.Digest])
	if err != nil {
		return nil, err
	}
	if unpacked, err := gzip.NewReader(r); err == nil {
		return unpacked, nil
	}
	r.Close()
	return s.open(s.names[d.Digest])
}
