package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
)

// Options are what a pull depends on.
type Options struct {
	Home string // the user's, where credentials are
	// Written are the directories that sandboxes write to, in which no program is looked for.
	Written func() []string
	// Tell reports progress, in bytes; total is 0 if unknown. Several goroutines may call it.
	Tell func(what string, done, total int64)
}

func (o Options) tell(what string, done, total int64) {
	if o.Tell != nil {
		o.Tell(what, done, total)
	}
}

// atOnce is how many blobs are fetched at the same time.
const atOnce = 3

// Need returns the image that was pulled by this name or, if there is none, pulls it. A local one is
// read each time.
func (s *Store) Need(ctx context.Context, r Reference, o Options) (*Image, error) {
	if !r.Local() {
		if i, err := s.Find(r); !errors.Is(err, ErrNotHere) {
			return i, err
		}
	}
	return s.Pull(ctx, r, o)
}

// Pull fetches the image that a name stands for now.
func (s *Store) Pull(ctx context.Context, r Reference, o Options) (*Image, error) {
	unlock, err := s.lock(ctx, func() { o.tell("waiting for another pull to end", 0, 0) })
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.sweep()
	// Another process may have removed it.
	if err := os.MkdirAll(filepath.Join(s.dir, blobsName), 0o700); err != nil {
		return nil, fmt.Errorf("make room for images: %w", err)
	}
	from, err := r.open(ctx, o)
	if err != nil && r.Local() {
		return nil, err
	}
	var i *Image
	if err == nil {
		defer from.close()
		p := pull{store: s, ref: r, from: from, Options: o}
		i, err = p.run(ctx)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, ui.Hint(fmt.Errorf("pull %s: %w", r, err), "%s", cmp.Or(ui.HintOf(err), "look at the name, or choose another image"))
	}
	return i, s.changeRefs(func(refs map[string]string) { refs[r.String()] = i.Digest.String() })
}

// pull is a pull under way.
type pull struct {
	Options
	store *Store
	ref   Reference
	from  source

	digest v1.Hash
	manifest
	total, done atomic.Int64
	disk        *limits.Disk // nil if it does not count what is free
}

func (p *pull) run(ctx context.Context) (*Image, error) {
	if err := p.resolve(ctx); err != nil {
		return nil, err
	}
	if i, err := p.store.Get(p.digest.String()); !errors.Is(err, ErrNotHere) {
		return i, err
	}
	p.disk, _ = limits.OpenDisk(p.store.dir, limits.DefaultKeepFree)
	defer p.disk.Close()
	if err := p.fetchAll(ctx); err != nil {
		return nil, err
	}
	i, err := p.build(ctx)
	if ctx.Err() == nil { // used, or of no use
		for _, d := range append(p.Layers, p.Config) {
			_ = os.Remove(p.blobPath(d))
		}
	}
	return i, err
}

// resolve finds the manifest for this machine. One that is named by its digest must match it.
func (p *pull) resolve(ctx context.Context) error {
	name := p.ref.named()
	for range 3 { // an index may be in an index
		data, err := p.from.manifest(ctx, name)
		if err != nil {
			return err
		}
		p.digest = digestOf(data)
		if IsDigest(name) && p.digest.String() != name {
			return fmt.Errorf("its manifest has the digest %s, and should have %s", p.digest, name)
		}
		m, err := parseManifest(data)
		if err != nil {
			return err
		}
		if len(m.Manifests) == 0 {
			p.manifest = *m
			return nil
		}
		d, err := m.ours()
		if err != nil {
			return err
		}
		name = d.Digest.String()
	}
	return errors.New("its manifest is a list of lists")
}

func (p *pull) blobPath(d v1.Descriptor) string {
	return filepath.Join(p.store.dir, blobsName, d.Digest.Hex)
}

// fetchAll fetches the config and the layers that are missing.
func (p *pull) fetchAll(ctx context.Context) error {
	seen := map[v1.Hash]bool{}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	var missing []v1.Descriptor
	for _, d := range append([]v1.Descriptor{p.Config}, p.Layers...) {
		if info, err := os.Stat(p.blobPath(d)); !seen[d.Digest] && (err != nil || d.Size > 0 && info.Size() != d.Size) {
			missing = append(missing, d)
			p.total.Add(d.Size)
		}
		seen[d.Digest] = true
	}
	for _, d := range missing {
		work.Go(func() error { return p.fetch(ctx, d) })
	}
	return work.Wait()
}

// fetch fetches one blob. It gets its name once its digest is checked.
func (p *pull) fetch(ctx context.Context, d v1.Descriptor) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r, err := p.from.blob(ctx, d)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := os.CreateTemp(filepath.Join(p.store.dir, blobsName), "part-")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	most := int64(maxUnpacked)
	if d.Size > 0 {
		most = d.Size
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum, counter{p}), p.careful(ctx, io.LimitReader(r, most+1)))
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return fmt.Errorf("fetch %s: %w", short(d.Digest), err)
	case d.Size > 0 && n != d.Size || n > most:
		return fmt.Errorf("%s is not as long as the manifest says: %d bytes, and not %d", short(d.Digest), n, d.Size)
	case got != d.Digest.Hex:
		return fmt.Errorf("%s is not what it should be: it has the digest %s", short(d.Digest), sha+got)
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), p.blobPath(d))
}

func short(d v1.Hash) string { return "the part " + d.Hex[:12] }

// counter reports how much was fetched, and bounds it: a descriptor need not say a size.
type counter struct{ p *pull }

func (c counter) Write(b []byte) (int, error) {
	done := c.p.done.Add(int64(len(b)))
	if done > maxUnpacked {
		return 0, errLarge
	}
	c.p.tell("pulling "+c.p.ref.String(), done, c.p.total.Load())
	return len(b), nil
}

// build unpacks the layers, and renames the tree into place.
func (p *pull) build(ctx context.Context) (_ *Image, err error) {
	text, err := os.ReadFile(p.blobPath(p.Config))
	if err != nil {
		return nil, err
	}
	// It may have been here for long, and power cuts empty files.
	if digestOf(text) != p.Config.Digest {
		os.Remove(p.blobPath(p.Config))
		return nil, errors.New("what was fetched earlier is damaged, and was removed: try again")
	}
	c, err := parseConfig(text, len(p.Layers))
	if err != nil {
		return nil, err
	}
	made := filepath.Join(p.store.dir, newName+p.digest.Hex)
	defer func() {
		if err != nil {
			_ = safepath.RemoveTree(made)
		}
	}()
	if err := os.Mkdir(made, 0o755); err != nil {
		return nil, err
	}
	size, err := p.unpack(ctx, filepath.Join(made, treeName), c.RootFS.DiffIDs)
	if err != nil {
		return nil, err
	}
	i := &Image{Version: 1, Digest: p.digest, Env: c.Config.Env, Ignored: c.ignored(), Size: size, Pulled: time.Now().UTC().Truncate(time.Second), dir: filepath.Join(p.store.dir, p.digest.Hex)}
	data, err := json.MarshalIndent(i, "", "  ")
	if err == nil {
		err = safepath.File{Path: filepath.Join(made, infoName), Alone: true}.Write(append(data, '\n'))
	}
	if err == nil {
		err = syncTree(made)
	}
	if err == nil {
		err = os.Rename(made, i.dir)
	}
	return i, err
}

// unpack makes the tree of all layers.
func (p *pull) unpack(ctx context.Context, dir string, diffs []v1.Hash) (size int64, err error) {
	t, err := newTree(dir)
	if err != nil {
		return 0, err
	}
	defer t.close()
	left := int64(maxUnpacked + maxPadding)
	for i, d := range p.Layers {
		p.tell("unpacking "+p.ref.String(), int64(i), 0)
		if err := p.layer(ctx, t, d, diffs[i], &left); err != nil {
			return 0, fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	return t.bytes, t.furnish()
}

// layer unpacks one layer over the tree, and checks its diff ID. left is how much may still be
// unpacked.
func (p *pull) layer(ctx context.Context, t *tree, d v1.Descriptor, diff v1.Hash, left *int64) error {
	f, err := os.Open(p.blobPath(d))
	if err != nil {
		return err
	}
	defer f.Close()
	plain, err := decompress(f)
	if err != nil {
		return err
	}
	defer plain.Close()
	sum := sha256.New()
	all := io.TeeReader(p.careful(ctx, &bounded{plain, left}), sum)
	if err := t.layer(all); err != nil {
		return err
	}
	// The hash covers what follows the end of the archive.
	if _, err := io.Copy(io.Discard, all); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != diff.Hex {
		os.Remove(p.blobPath(d))
		return errors.New("it is not what the image's config says that it is")
	}
	return nil
}

// careful reads what will be written. It ends with the context, and before the last of the disk is
// used: what is fetched is as large as a stranger says, and a layer grows a thousandfold when it is
// unpacked.
type careful struct {
	ctx context.Context
	io.Reader
	short func() string // what is short on the disk
	since int
}

func (p *pull) careful(ctx context.Context, r io.Reader) io.Reader {
	return &careful{ctx: ctx, Reader: r, short: p.disk.Short}
}

// lookEvery is after how many bytes the disk is looked at again.
const lookEvery = 4 << 20

func (c *careful) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.Reader.Read(b)
	if c.since += n; c.since < lookEvery {
		return n, err
	}
	c.since = 0
	if short := c.short(); short != "" {
		return 0, ui.Error("the disk is nearly full: "+short, "make room, with 'coffer images prune' for one")
	}
	return n, err
}
