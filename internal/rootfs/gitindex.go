package rootfs

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/cofferhq/coffer/internal/gitindex"
)

// maxIndex bounds how large an index is read: some 10 million files.
const maxIndex = 1 << 30

// Gitlinks returns the paths of submodules in a repository's index. No index means that
// there are none.
func Gitlinks(path string) ([]string, error) {
	text, err := readIndex(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseGitlinks(text)
}

// parseGitlinks finds submodules. Whether names of contents have 20 bytes or 32 is told by
// trying.
func parseGitlinks(text string) (links []string, err error) {
	for _, size := range []int{20, 32} {
		links = nil
		err = parseIndex(text, size, func(e gitindex.Entry) {
			if e.Mode == gitindex.Gitlink {
				links = append(links, strings.Clone(e.Name))
			}
		})
		if err == nil {
			return links, nil
		}
	}
	return nil, err
}

// Tracked returns the paths of all files in a repository's index, in git's order, which is
// that of their bytes.
func Tracked(path string) (names []string, err error) {
	for _, size := range []int{20, 32} {
		var all []gitindex.Entry
		if all, err = Index(path, size); err == nil {
			for _, e := range all {
				names = append(names, e.Name)
			}
			return names, nil
		}
	}
	return nil, err
}

// Index reads a repository's index whose names of contents have so many bytes.
func Index(path string, size int) (all []gitindex.Entry, err error) {
	text, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	err = parseIndex(text, size, func(e gitindex.Entry) { all = append(all, e) })
	return all, err
}

func readIndex(path string) (string, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text strings.Builder
	if info, err := f.Stat(); err == nil {
		text.Grow(int(min(info.Size(), maxIndex)))
	}
	_, err = io.Copy(&text, io.LimitReader(f, maxIndex))
	return text.String(), err
}

func parseIndex(text string, size int, each func(gitindex.Entry)) error {
	r, err := gitindex.NewReader(text, size)
	if err != nil {
		return err
	}
	for r.Count > 0 {
		e, err := r.Next()
		if err != nil {
			return err
		}
		if !plausible(e.Mode) {
			return gitindex.ErrForm
		}
		each(e)
	}
	return nil
}

// plausible says whether a mode is one that git writes: a file, a link, a submodule, or
// a directory of a sparse index.
func plausible(mode uint32) bool {
	return mode>>12 == 0o10 || mode>>12 == 0o12 || mode>>12 == 0o16 || mode>>12 == 0o4
}
