package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
)

// An Addition is a file that a commit has brought into the repository. It is in there
// since, also if a later commit has removed it.
type Addition struct{ Commit, Path string }

// maxPath is more than any path of a repository has.
const maxPath = 64 << 10

// Added goes through all commits that a ref leads to, latest first, and tells which files
// each has added, until visit says that it is enough or the context ends. Only git's own
// objects are read, and none of the files' content.
func (r *Repository) Added(ctx context.Context, visit func(Addition) (more bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []string{"log", "--all", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-show-signature",
		"--diff-filter=A", "--raw", "--no-abbrev", "--root", "-m", "-z", "--format=%H"}
	c := r.git().command(ctx, args...)
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	errs := &limited{left: 64 << 10, drop: true}
	c.Stderr = errs
	if err := start(c); err != nil {
		return missing(err)
	}
	enough, err := additions(out, visit)
	if enough || err != nil {
		cancel()
	}
	waited := c.Wait()
	switch {
	case err != nil:
		return err
	case enough:
		return nil
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case waited != nil:
		return &Error{Args: args, Err: waited, Said: errs.String()}
	}
	return nil
}

// additions takes what git prints apart: a commit's name, and for each file a line that
// begins with a colon and then its path, all of them ended by a NUL.
func additions(in io.Reader, visit func(Addition) bool) (enough bool, err error) {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 8<<10), maxPath)
	s.Split(func(data []byte, end bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil // what is not ended was cut off
	})
	commit := ""
	for s.Scan() {
		word := strings.TrimPrefix(s.Text(), "\n")
		if !strings.HasPrefix(word, ":") {
			commit = word
			continue
		}
		if !s.Scan() {
			break
		}
		if commit == "" {
			return false, errors.New("git log: a file without a commit")
		}
		if !visit(Addition{commit, s.Text()}) {
			return true, nil
		}
	}
	return false, s.Err()
}
