package git

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"strings"
)

// When git looks for commits that were picked, it takes no notice of white space: two ways to
// indent a file are the same to it. To somebody who is about to lose one they are not. So git is
// asked which commits are alike, and those are compared letter by letter, but for where in the
// file a change is.

// picked says whether each of a branch's commits is on another one too, by its patch. A merge
// has none, and is not.
func (j *judge) picked(ctx context.Context, id, other string) bool {
	mine, rest, err := j.alike(ctx, "--right-only", id, other)
	if err != nil || rest > 0 || len(mine) == 0 {
		return false
	}
	theirs, _, err := j.alike(ctx, "--left-only", id, other)
	if err != nil {
		return false
	}
	known, err := j.patches(ctx, theirs)
	if err != nil {
		return false
	}
	want, err := j.patches(ctx, mine)
	if err != nil || len(want) != len(mine) {
		return false
	}
	there := map[string]bool{}
	for _, sum := range known {
		there[sum] = true
	}
	for _, sum := range want {
		if !there[sum] {
			return false
		}
	}
	return true
}

// alike are the commits on one side that are like one on the other, and how many are not.
func (j *judge) alike(ctx context.Context, side, id, other string) (ids []string, rest int, err error) {
	out, err := j.git.text(ctx, "rev-list", side, "--cherry-mark", other+"..."+id, "--")
	for _, line := range strings.Fields(out) {
		if same, ok := strings.CutPrefix(line, "="); ok {
			ids = append(ids, same)
		} else {
			rest++
		}
	}
	return ids, rest, err
}

// patches are sums of what commits change, by their names.
func (j *judge) patches(ctx context.Context, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := j.git.command(ctx, "diff-tree", "--stdin", "-p", "--root", "--always", "--no-renames", "--full-index")
	c.Stdin = strings.NewReader(strings.Join(ids, "\n") + "\n")
	read, write := io.Pipe()
	c.Stdout = write
	ended := make(chan error, 1)
	go func() {
		err := runMortal(c)
		write.CloseWithError(err)
		ended <- err
	}()
	sums, err := sumPatches(read, len(ids[0]))
	read.Close() // and git ends, if it has more to say
	return sums, errors.Join(err, <-ended)
}

// sumPatches reads patches, each behind the name of its commit. What is in a file has a sign
// before it, so none of it can be taken for anything else.
func sumPatches(r io.Reader, size int) (map[string]string, error) {
	sums := map[string]string{}
	var id string
	var sum hash.Hash
	var names []byte // of the file's contents, before and after
	end := func() {
		if sum != nil {
			sums[id] = string(sum.Sum(nil))
		}
	}
	b := bufio.NewReaderSize(r, 64<<10)
	for begins := true; ; {
		line, err := b.ReadSlice('\n')
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return nil, err
		}
		switch text := bytes.TrimSuffix(line, []byte("\n")); {
		case begins && len(text) == size && isHex(text):
			end()
			id, sum = string(text), sha256.New()
		case sum == nil:
		case begins && bytes.HasPrefix(line, []byte("@@ ")):
			sum.Write([]byte("@@\n")) // wherever it is
		case begins && bytes.HasPrefix(line, []byte("index ")): // nor what else is in the file
			names = append(names[:0], line...)
		case begins && bytes.HasPrefix(line, []byte("Binary files ")): // of which this is all that is said
			sum.Write(names)
			sum.Write(line)
		default:
			sum.Write(line)
		}
		begins = err == nil
		if err == io.EOF {
			end()
			return sums, nil
		}
	}
}

func isHex(text []byte) bool {
	return len(bytes.Trim(text, "0123456789abcdef")) == 0
}
