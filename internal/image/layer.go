package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/klauspost/compress/zstd"
)

// What may be unpacked at most, of all layers together.
const (
	maxUnpacked = 128 << 30
	maxPadding  = 8 << 30 // headers, and what is between files
	maxEntries  = 2 << 20
	maxNames    = 256 << 20 // bytes of all names
	maxName     = 4096
)

var (
	errLarge = ui.Error("the image is larger than anything that coffer unpacks", "choose a smaller one")
	errName  = errors.New("it has a name that is too long")
)

// maxWindow bounds the memory for a zstd layer. No encoder's level needs more than 128 MiB.
const maxWindow = 128 << 20

// decompress undoes the compression that a layer has, if any.
func decompress(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 1<<20)
	magic, err := b.Peek(4)
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(b), nil
}

// bounded is a reader that fails where there is too much.
type bounded struct {
	io.Reader
	left *int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if *b.left -= int64(n); *b.left < 0 {
		return 0, errLarge
	}
	return n, err
}

// A change is one thing that a layer does, with a name that is relative and clean.
type change struct {
	kind string // one of those below
	name string
	link string // of links: as it is written, or the name in the tree
	mode uint32
	size int64
	when int64 // seconds
}

const (
	makeDir     = "directory"
	makeFile    = "file"
	makeSymlink = "symlink"
	makeLink    = "link"
	whiteout    = "whiteout" // the name is gone
	opaque      = "opaque"   // all that lower layers have in the directory is gone
	leaveOut    = "other"    // a device or a pipe: not made, but nothing else is there either
)

// Names of files by which layers say what is gone.
const (
	whPrefix = ".wh."
	whOpaque = ".wh..wh..opq"
	whMeta   = ".wh..wh."
)

// next reads what comes next in a layer. A change without a kind is nothing.
func next(t *tar.Reader) (c change, err error) {
	h, err := t.Next()
	if err != nil {
		return c, err
	}
	if len(h.Name) > maxName || len(h.Linkname) > maxName {
		return c, errName
	}
	if c.name, err = relative(h.Name); err != nil || c.name == "" {
		return c, err
	}
	c.mode, c.size, c.when = uint32(h.Mode)&0o777, h.Size, h.ModTime.Unix()
	dir, base := path.Split(c.name)
	switch {
	case base == whOpaque:
		c.kind, c.name = opaque, path.Clean(dir)
		return c, nil
	case strings.HasPrefix(base, whMeta):
		return c, nil // notes of a file system that wrote layers once
	case strings.HasPrefix(base, whPrefix):
		base = strings.TrimPrefix(base, whPrefix)
		if base == "" || base == "." || base == ".." {
			return c, fmt.Errorf("it removes %q", clip(h.Name))
		}
		c.kind, c.name = whiteout, dir+base
		return c, nil
	}
	switch h.Typeflag {
	case tar.TypeDir:
		c.kind = makeDir
	case tar.TypeReg, tar.TypeGNUSparse:
		c.kind = makeFile
	case tar.TypeSymlink:
		if c.kind, c.link = makeSymlink, h.Linkname; c.link == "" || strings.ContainsRune(c.link, 0) {
			return c, fmt.Errorf("its link %q leads to %q", clip(h.Name), clip(c.link))
		}
	case tar.TypeLink:
		c.kind = makeLink
		c.link, err = relative(h.Linkname)
		if err == nil && c.link == "" {
			err = fmt.Errorf("its link %q leads nowhere", clip(h.Name))
		}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		c.kind = leaveOut
	}
	return c, err
}

// relative is a name in the tree. One that goes up is not a mistake that somebody made.
func relative(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("its name %q leads out of the image", clip(name))
		}
	}
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("its name %q has a NUL in it", clip(name))
	}
	return path.Clean("/" + name)[1:], nil
}
