package git

import (
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// maxRefs bounds how much of the sandbox's packed refs is read.
const maxRefs = 16 << 20

// insideHead reads what is checked out inside, from the private directory: a commit and
// its branch, or nothing that is understood. All of it is a stranger's.
func (b *Bridge) insideHead() (commit, branch string) {
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return "", ""
	}
	defer root.Close()
	head := smallText(root, "HEAD", 4096)
	ref, ok := strings.CutPrefix(head, "ref: refs/heads/")
	if !ok {
		return validCommit(head), ""
	}
	ref = strings.TrimSpace(ref)
	if !plainRef(ref) {
		return "", ""
	}
	if id := validCommit(smallText(root, "refs/heads/"+ref, 4096)); id != "" {
		return id, ref
	}
	for line := range strings.Lines(smallText(root, "packed-refs", maxRefs)) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == "refs/heads/"+ref {
			return validCommit(id), ref
		}
	}
	return "", ref
}

// plainRef says whether a name could be a branch's, as far as it matters to who makes a
// path or an argument of it.
func plainRef(ref string) bool {
	return ref != "" && fs.ValidPath(ref) && ref[0] != '-' && len(ref) < 1024 && !strings.ContainsAny(ref, " ~^:?*[\\\x7f") &&
		!strings.Contains(ref, "@{") && strings.IndexFunc(ref, func(r rune) bool { return r < 0x20 }) < 0
}

func validCommit(s string) string {
	s = strings.TrimSpace(s)
	if (len(s) != 40 && len(s) != 64) || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// smallText reads a file of a directory that a stranger writes: a regular one, following
// nothing out of it, and no more than so much.
func smallText(root *os.Root, name string, limit int64) string {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > limit {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return ""
	}
	return string(text)
}
