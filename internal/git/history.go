package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/ui"
)

// History reads the host's repository: its commits, trees and files. Nothing that a
// sandbox can write has a say in it: there is no working tree, and of all settings and
// attributes none can name a program.
type History struct {
	host   host
	Format string
}

// History is that of the repository that the sandbox belongs to. What was committed
// inside is in it since it was brought over and checked.
func (s *State) History() *History { return &History{s.refs(), s.Format} }

// History is the repository's.
func (r *Repository) History() *History { return &History{r.git(), r.Format} }

// Tip is the sandbox's branch as it was last brought over.
func (s *State) Tip(ctx context.Context) (string, error) {
	id, err := s.refs().text(ctx, "rev-parse", "--verify", "-q", s.branchRef()+"^{commit}")
	if err != nil {
		return "", ui.Error(fmt.Sprintf("the branch %s is gone", s.Branch), "bring it back with "+ui.Command("git branch", s.Branch, s.own()+"heads/"+s.Branch))
	}
	return id, nil
}

// since is the commit to compare the sandbox's work with: the one that it started from, or a
// later one that the user has too, after a merge or a rebase. tip is where its branch is.
func (s *State) since(ctx context.Context, tip string) (string, error) {
	head, err := s.refs().text(ctx, "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if err != nil {
		return s.Base, nil
	}
	common, err := s.refs().text(ctx, "merge-base", tip, head)
	if code(err) == 1 || common == "" {
		return s.Base, nil
	}
	if err != nil {
		return "", err
	}
	if later, err := s.refs().contains(ctx, common, s.Base); err != nil || later {
		return common, err
	}
	if ours, err := s.refs().contains(ctx, tip, s.Base); err != nil || ours {
		return s.Base, err
	}
	return common, nil
}

// Manifest lists the files of a commit. "", before the first one, has none.
func (h *History) Manifest(ctx context.Context, commit string) (checkpoint.Manifest, error) {
	if commit == "" {
		return checkpoint.Manifest{}, nil
	}
	out, err := h.host.run(ctx, "", "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	m := checkpoint.Manifest{}
	for line := range strings.SplitSeq(out, "\x00") {
		if line == "" {
			continue
		}
		about, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(about)
		if !ok || len(f) != 3 {
			return nil, fmt.Errorf("git ls-tree: unexpected answer %q", line)
		}
		mode, err := strconv.ParseUint(f[0], 8, 32)
		if err != nil {
			return nil, fmt.Errorf("git ls-tree: unexpected answer %q", line)
		}
		if mode&^0o777 == 0o100000 { // old commits have other modes
			mode = checkpoint.Regular | mode&0o100
			if mode != checkpoint.Regular {
				mode = checkpoint.Executable
			}
		}
		m[path] = checkpoint.Item{Mode: uint32(mode), ID: f[2]}
	}
	return m, nil
}

// New lists the files that commits after another brought, as names of contents with a
// path each, also those that a later commit removed again.
func (h *History) New(ctx context.Context, since, tip string) (map[string]string, error) {
	span := tip
	if since != "" {
		span = since + ".." + tip
	}
	out, err := h.host.run(ctx, "", "log", "--format=", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
		"--ignore-submodules=none", "--diff-merges=first-parent", "--max-count=5000", span)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	f := strings.Split(out, "\x00")
	for i := 0; i+1 < len(f); {
		about := strings.Fields(strings.TrimLeft(f[i], "\n"))
		if len(about) == 5 && strings.HasPrefix(about[0], ":") {
			if about[1] == "100644" || about[1] == "100755" {
				all[about[3]] = f[i+1]
			}
			i += 2
			continue
		}
		i++
	}
	return all, nil
}

// Commits lists the commits after another, the newest first, with their subjects.
func (h *History) Commits(ctx context.Context, since, tip string, most int) ([]string, error) {
	out, err := h.host.run(ctx, "", "log", "--format=%h %s", "--no-decorate", "--no-show-signature", fmt.Sprintf("--max-count=%d", most), since+".."+tip)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n"), nil
}

// Blobs reads contents, one after the other, from one git.
type Blobs struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stop    context.CancelFunc
	err     error
}

// Blobs starts to read. The caller closes it.
func (h *History) Blobs(ctx context.Context) (*Blobs, error) {
	ctx, stop := context.WithCancel(ctx)
	c := h.host.command(ctx, "cat-file", "--batch")
	in, err := c.StdinPipe()
	if err != nil {
		stop()
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = start(c)
	}
	if err != nil {
		stop()
		return nil, missing(err)
	}
	return &Blobs{command: c, in: in, out: bufio.NewReaderSize(out, 64<<10), stop: stop}, nil
}

// Close ends the reading.
func (b *Blobs) Close() {
	b.in.Close()
	b.stop()
	_ = b.command.Wait()
}

// errNoObject says that a content is not in the repository.
var errNoObject = errors.New("there is no such object")

// Read reads a content. Of one that is larger than the limit, only the size is said.
func (b *Blobs) Read(id string, limit int64) (text []byte, size int64, err error) {
	if b.err != nil {
		return nil, 0, b.err
	}
	if len(id) < 40 || strings.Trim(id, "0123456789abcdef") != "" {
		return nil, 0, errNoObject
	}
	defer func() {
		if err != nil && !errors.Is(err, errNoObject) {
			b.err = err
		}
	}()
	if _, err := io.WriteString(b.in, id+"\n"); err != nil {
		return nil, 0, err
	}
	head, err := b.out.ReadString('\n')
	if err != nil {
		return nil, 0, err
	}
	f := strings.Fields(head)
	if len(f) == 2 && f[1] == "missing" {
		return nil, 0, errNoObject
	}
	if len(f) != 3 {
		return nil, 0, fmt.Errorf("git cat-file: unexpected answer %q", head)
	}
	if size, err = strconv.ParseInt(f[2], 10, 64); err != nil || size < 0 {
		return nil, 0, fmt.Errorf("git cat-file: unexpected answer %q", head)
	}
	if size > limit {
		_, err = io.CopyN(io.Discard, b.out, size+1)
		return nil, size, err
	}
	text = make([]byte, size)
	if _, err = io.ReadFull(b.out, text); err == nil {
		_, err = b.out.Discard(1)
	}
	return text, size, err
}
