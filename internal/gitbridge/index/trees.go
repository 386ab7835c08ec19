package index

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A node says which tree a directory is, if it is one. Git has them in the index, so as not
// to look at what has not changed.
type node struct {
	name  string
	count int // of the entries below it, or -1 if it is not as a tree says
	id    string
	below []*node
}

// maxDeep bounds how deep directories are.
const maxDeep = 1000

// parseTrees reads them: of each the name, a zero byte, the number of entries, a space, the
// number of directories in it, the end of the line, and the name of the tree.
//
// It returns nil if they say something else: git knows how to do without.
func parseTrees(b []byte, size int) *node {
	top, rest, ok := parseNode(b, size, 0)
	if !ok || len(rest) > 0 {
		return nil
	}
	return top
}

func parseNode(b []byte, size, deep int) (n *node, rest []byte, ok bool) {
	name, b, ok1 := bytes.Cut(b, []byte{0})
	count, b, ok2 := bytes.Cut(b, []byte{' '})
	below, b, ok3 := bytes.Cut(b, []byte{'\n'})
	n = &node{name: string(name)}
	var err1, err2 error
	n.count, err1 = strconv.Atoi(string(count))
	subtrees, err2 := strconv.Atoi(string(below))
	if !ok1 || !ok2 || !ok3 || err1 != nil || err2 != nil || subtrees < 0 || n.count < -1 || deep > maxDeep {
		return nil, nil, false
	}
	if n.count >= 0 {
		if len(b) < size {
			return nil, nil, false
		}
		n.id, b = string(b[:size]), b[size:]
	}
	for range subtrees {
		var sub *node
		if sub, b, ok = parseNode(b, size, deep+1); !ok {
			return nil, nil, false
		}
		n.below = append(n.below, sub)
	}
	return n, b, true
}

func (n *node) append(b []byte) []byte {
	b = fmt.Appendf(b, "%s\x00%d %d\n", n.name, n.count, len(n.below))
	if n.count >= 0 {
		b = append(b, n.id...)
	}
	for _, sub := range n.below {
		b = sub.append(b)
	}
	return b
}

// forget notes that something at a path has changed.
func (n *node) forget(path string) {
	for {
		n.count = -1
		name, rest, more := strings.Cut(path, "/")
		i := slices.IndexFunc(n.below, func(sub *node) bool { return sub.name == name })
		if i < 0 {
			return
		}
		if !more { // it was a directory
			n.below = slices.Delete(n.below, i, i+1)
			return
		}
		n, path = n.below[i], rest
	}
}
