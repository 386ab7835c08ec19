package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/gitbridge/loose"
	"github.com/cofferhq/coffer/internal/gitbridge/uploadpack"
)

// Most often a sandbox has one branch, and on it a few commits more than before. What they
// are made of lies in a few files, and nothing inside need be started to have it; see package
// loose. In all other cases git inside is asked.

// Bounds of what is read of the refs inside, that way.
const (
	maxGatheredRefs  = 200
	maxGatheredNames = 1 << 20
)

// gather is collect without anybody inside.
func (s *session) gather(ctx context.Context, c *crew) error {
	if s.memory != nil {
		return loose.ErrUnusual
	}
	if r, err := c.config(); err != nil || r.partial() || isFile(filepath.Join(s.Common, "shallow")) {
		return errors.Join(loose.ErrUnusual, err)
	}
	root, err := os.OpenRoot(s.private())
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat("shallow"); !errors.Is(err, fs.ErrNotExist) {
		return loose.ErrUnusual
	}
	heads, err := plainHeads(root, s.idSize())
	if err == nil {
		err = s.readPlain()
	}
	if err != nil {
		return err
	}
	fresh, ours := s.fresh(heads)
	if len(fresh) == 0 {
		return nil
	}
	f := loose.Finder{Size: s.idSize(), Open: func(id string) (io.ReadCloser, error) { return openRegular(root, "objects/"+id[:2]+"/"+id[2:]) }}
	f.Has = func(id string) bool { return ours[id] || s.isLoose(id) }
	found, err := f.Find(fresh)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		if _, err := c.unpack.end(bytes.NewReader(loose.Pack(found, s.idSize()))); err != nil {
			return err
		}
	}
	if _, err := c.linked.end(lines(fresh)); err != nil {
		return err
	}
	packs, err := os.ReadDir(filepath.Join(c.aside, "pack"))
	if err != nil {
		return err
	}
	if err := moveObjects(c.aside, s.Objects[0]); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range packs {
		if strings.HasSuffix(d.Name(), ".pack") {
			s.small = append(s.small, d.Name()) // to be taken apart later
		}
	}
	return nil
}

// idSize is how many bytes name an object.
func (b *Bridge) idSize() int {
	if b.Format == "sha256" {
		return 32
	}
	return 20
}

// isLoose says whether the host has a file of an object.
func (b *Bridge) isLoose(id string) bool {
	for _, dir := range b.Objects {
		if isFile(filepath.Join(dir, id[:2], id[2:])) {
			return true
		}
	}
	return false
}

// plainHeads are the branches in a git directory that a stranger writes. A ref that is packed
// meanwhile is in one of the two places, because they are read in this order.
func plainHeads(root *os.Root, size int) (heads []uploadpack.Ref, err error) {
	h := headReader{root: root, size: size, seen: map[string]bool{}}
	if err := h.dir("refs/heads", 0); err != nil {
		return nil, err
	}
	info, err := root.Lstat("packed-refs")
	if errors.Is(err, fs.ErrNotExist) {
		return h.heads, nil
	}
	if err != nil {
		return nil, err
	}
	text := smallText(root, "packed-refs", maxGatheredNames)
	if int64(len(text)) != info.Size() || !info.Mode().IsRegular() {
		return nil, loose.ErrUnusual
	}
	for line := range strings.Lines(text) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if strings.HasPrefix(name, "refs/heads/") {
			if err := h.add(name, id); err != nil {
				return nil, err
			}
		}
	}
	return h.heads, nil
}

type headReader struct {
	root  *os.Root
	size  int
	names int // that were looked at
	seen  map[string]bool
	heads []uploadpack.Ref
}

// add notes a branch. Who comes first counts.
func (h *headReader) add(name, id string) error {
	if h.seen[name] {
		return nil
	}
	if len(h.seen) >= maxGatheredRefs || len(id) != 2*h.size || !isID(id) || strings.Trim(id, "0") == "" {
		return fmt.Errorf("%w: the ref %.200q is %.80q", loose.ErrUnusual, name, id)
	}
	if h.seen[name] = true; uploadpack.Valid(name) {
		h.heads = append(h.heads, uploadpack.Ref{Name: name, ID: id})
	}
	return nil
}

// openDir opens a directory that a stranger writes, and nothing that is in its place by now.
func openDir(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}

// dir adds the branches that are files below a directory.
func (h *headReader) dir(name string, deep int) error {
	f, err := openDir(h.root, name)
	if err != nil {
		return err
	}
	list, err := f.ReadDir(maxGatheredRefs + 1)
	f.Close()
	if err != nil && err != io.EOF {
		return err
	}
	if h.names += len(list); h.names > maxGatheredRefs || deep > maxDeep {
		return loose.ErrUnusual
	}
	for _, d := range list {
		at := name + "/" + d.Name()
		switch {
		case d.IsDir():
			err = h.dir(at, deep+1)
		case strings.HasSuffix(at, ".lock"):
			err = nil
		case !d.Type().IsRegular():
			err = loose.ErrUnusual
		default:
			err = h.add(at, strings.TrimSuffix(smallText(h.root, at, 100), "\n"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
