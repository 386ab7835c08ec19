package checkpoint

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func (s *Store) object(id string) string {
	return filepath.Join(s.dir, "objects", id[:2], id[2:])
}

// makeDir makes one directory: the folder of a removed sandbox must not come back.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func validID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}

func (s *Store) has(id string) bool {
	if s.inBase[id] {
		return true
	}
	_, err := os.Lstat(s.object(id))
	return err == nil
}

// small is the size up to which a content is named before it is written.
const small = 1 << 20

// keep keeps a content of this size, and returns its name. Most contents are there already.
func (s *Store) keep(r io.Reader, size int64) (id string, err error) {
	if size > small {
		return s.writeObject(r, size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err == io.EOF && size > 0 || err == io.ErrUnexpectedEOF {
		return "", ErrBusy
	} else if err != nil && size > 0 {
		return "", err
	}
	if id, err = Name(s.format, bytes.NewReader(text), size, nil); err != nil || s.has(id) {
		return id, err
	}
	return s.writeObject(bytes.NewReader(text), size)
}

// writeObject writes a content as a draft, which is renamed once it is whole.
func (s *Store) writeObject(r io.Reader, size int64) (id string, err error) {
	draft, err := os.CreateTemp(s.dir, "draft")
	if err != nil {
		return "", err
	}
	defer os.Remove(draft.Name())
	defer draft.Close()
	z, err := zlib.NewWriterLevel(draft, zlib.BestSpeed)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(z, "blob %d\x00", size)
	if id, err = Name(s.format, r, size, z); err != nil {
		return "", err
	}
	if err = z.Close(); err != nil {
		return "", err
	}
	if s.has(id) {
		return id, nil
	}
	path := s.object(id)
	if err := makeDir(filepath.Dir(path)); err != nil {
		return "", err
	}
	if info, err := draft.Stat(); err == nil {
		s.list.Bytes += info.Size()
	}
	return id, os.Rename(draft.Name(), path)
}

// ErrNotKept is for a content that no checkpoint has.
var ErrNotKept = errors.New("its content was not kept")

// A Source reads contents of commits.
type Source func(id string, limit int64) (text []byte, size int64, err error)

func (s *Store) open(id string, from Source) (io.ReadCloser, error) {
	if !validID(id) {
		return nil, ErrNotKept
	}
	f, err := os.Open(s.object(id))
	if err != nil {
		if from == nil {
			return nil, ErrNotKept
		}
		text, size, err := from(id, maxBytes)
		if err != nil || int64(len(text)) != size {
			return nil, errors.Join(ErrNotKept, err)
		}
		return io.NopCloser(strings.NewReader(string(text))), nil
	}
	z, err := zlib.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	r := bufio.NewReader(z)
	if _, err := r.ReadString(0); err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{r, f}, nil
}

// Lend gives another store the contents of some files, by hard links if possible.
func (s *Store) Lend(to *Store, m Manifest) error {
	for _, item := range m {
		if !validID(item.ID) || item.Mode == Gitlink || to.has(item.ID) {
			continue
		}
		from, path := s.object(item.ID), to.object(item.ID)
		if _, err := os.Lstat(from); err != nil {
			continue // it is in the user's repository
		}
		if err := makeDir(filepath.Dir(path)); err != nil {
			return err
		}
		if err := os.Link(from, path); err != nil && !errors.Is(err, os.ErrExist) {
			b, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
