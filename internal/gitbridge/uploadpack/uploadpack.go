// Package uploadpack is the client's side of git fetch, as far as it is talk: it asks a git
// upload-pack which refs there are, says what is wanted and what is there already, and
// returns the pack. It speaks version 2 of the protocol and nothing else.
//
// The server is git inside a sandbox, or whoever says so. All that it says is bounded, and
// the pack is for git to check. It is done here, and not by git fetch, because git fetch is
// five programs one after the other, and a user waits for each of them.
package uploadpack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a server says.
const (
	MaxRefs  = 20000
	maxNames = 4 << 20 // of refs, together
	maxWords = 100     // capabilities
	maxLine  = 65516
	maxSaid  = 400
)

// ErrAnswer is wrapped by every error about an answer that no git would give.
var ErrAnswer = errors.New("not an answer of git upload-pack")

// ErrOther is for an answer that git fetch understands and this package does not: of another
// version, or from a repository that is shallow.
var ErrOther = errors.New("git upload-pack speaks of what only git understands")

// A Ref is one that the server has.
type Ref struct{ Name, ID string }

// A Client talks to one upload-pack.
type Client struct {
	in     *bufio.Reader
	out    io.Writer
	format string // what objects are named by
	says   bool   // it wants to hear that
}

// Open hears what the server can do. Its objects must be named as the client's are.
func Open(in io.Reader, out io.Writer, format string) (*Client, error) {
	c := &Client{in: bufio.NewReaderSize(in, 1<<16), out: out, format: format}
	theirs := "sha1"
	for n := 0; ; n++ {
		text, kind, err := c.line()
		if err != nil {
			return nil, err
		}
		switch {
		case n == 0 && text != "version 2":
			return nil, ErrOther
		case n > maxWords:
			return nil, fmt.Errorf("%w: it can do too much", ErrAnswer)
		case kind == flush:
			if theirs != format {
				return nil, fmt.Errorf("its objects are named by %q, and not by %s", theirs, format)
			}
			return c, nil
		case kind != data:
			return nil, fmt.Errorf("%w: %q", ErrAnswer, text)
		}
		if f, ok := strings.CutPrefix(text, "object-format="); ok {
			theirs, c.says = f, true
		}
	}
}

// ask sends a command.
func (c *Client) ask(command string, args ...string) error {
	var b bytes.Buffer
	put := func(text string) { fmt.Fprintf(&b, "%04x%s\n", len(text)+5, text) }
	put("command=" + command)
	if c.says {
		put("object-format=" + c.format)
	}
	b.WriteString("0001")
	for _, a := range args {
		put(a)
	}
	b.WriteString("0000")
	_, err := c.out.Write(b.Bytes())
	return err
}

// Refs are those whose names begin with a prefix, such as refs/heads/. One with a name that
// git would not give is left out.
func (c *Client) Refs(prefix string) (refs []Ref, err error) {
	if err := c.ask("ls-refs", "ref-prefix "+prefix); err != nil {
		return nil, err
	}
	seen, long := map[string]bool{}, 0
	for {
		text, kind, err := c.line()
		switch {
		case err != nil:
			return nil, err
		case kind == flush:
			return refs, nil
		case kind != data:
			return nil, fmt.Errorf("%w: %q", ErrAnswer, text)
		case len(seen) == MaxRefs:
			return nil, fmt.Errorf("it has more than %d branches", MaxRefs)
		}
		id, name, _ := strings.Cut(text, " ")
		name, _, _ = strings.Cut(name, " ")
		if !c.isID(id) || !strings.HasPrefix(name, prefix) || seen[name] {
			return nil, fmt.Errorf("%w: %q", ErrAnswer, text[:min(len(text), maxSaid)])
		}
		if long += len(name); long > maxNames {
			return nil, fmt.Errorf("the names of its branches have more than %d bytes", maxNames)
		}
		id, name = strings.Clone(id), strings.Clone(name) // the rest of the line need not be kept
		if seen[name] = true; Valid(name) {
			refs = append(refs, Ref{name, id})
		}
	}
}

func (c *Client) isID(s string) bool {
	n := 40
	if c.format == "sha256" {
		n = 64
	}
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}

// Valid says whether git would take a name for a ref's: one that it would not take would keep
// it from moving all the others.
func Valid(name string) bool {
	if strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) || strings.ContainsAny(name, "~^:?*[\\") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// Fetch asks for what is missing to have some objects, if one has others with all that they
// lead to. It returns the pack, which may be made of what one has.
func (c *Client) Fetch(wants, haves []string) (pack io.Reader, err error) {
	args := []string{"thin-pack", "no-progress", "ofs-delta"}
	for _, id := range wants {
		args = append(args, "want "+id)
	}
	for _, id := range haves {
		args = append(args, "have "+id)
	}
	if err := c.ask("fetch", append(args, "done")...); err != nil {
		return nil, err
	}
	text, kind, err := c.line()
	switch {
	case err != nil:
		return nil, err
	case kind == data && text == "packfile":
		return &band{in: c.in}, nil
	case kind == data && slices.Contains([]string{"acknowledgments", "shallow-info", "wanted-refs", "packfile-uris"}, text):
		return nil, ErrOther
	}
	return nil, fmt.Errorf("%w: %q", ErrAnswer, text[:min(len(text), maxSaid)])
}

// The kinds of lines.
const (
	flush = 0 // the end
	data  = 4
)

// line reads one that is text, without the end of it.
func (c *Client) line() (text string, kind int, err error) {
	n, kind, err := head(c.in)
	if err != nil || kind != data {
		return "", kind, err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return "", 0, broken(err)
	}
	text = strings.TrimSuffix(string(body), "\n")
	if said, ok := strings.CutPrefix(text, "ERR "); ok {
		return "", 0, fmt.Errorf("git inside says %q", said[:min(len(said), maxSaid)])
	}
	return text, data, nil
}

// head reads how long a line is, and of which kind.
func head(in *bufio.Reader) (n, kind int, err error) {
	var b [4]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return 0, 0, broken(err)
	}
	size, err := strconv.ParseUint(string(b[:]), 16, 16)
	switch {
	case err != nil || size == 3 || size > maxLine+4:
		return 0, 0, fmt.Errorf("%w: a line of length %q", ErrAnswer, b[:])
	case size < 3:
		return 0, int(size), nil
	}
	return int(size) - 4, data, nil
}

func broken(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("git inside hung up: %w", err)
}

// band is the pack among what else comes with it.
type band struct {
	in   *bufio.Reader
	left int // of the line
	err  error
}

func (b *band) Read(p []byte) (int, error) {
	for b.left == 0 && b.err == nil {
		b.err = b.next()
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	if b.left -= n; err != nil {
		b.err = broken(err)
	}
	return n, b.err
}

// next goes to the next line with something of the pack.
func (b *band) next() error {
	for {
		n, kind, err := head(b.in)
		switch {
		case err != nil:
			return err
		case kind == flush:
			return io.EOF
		case kind != data || n == 0:
			return fmt.Errorf("%w: a line of kind %d in a pack", ErrAnswer, kind)
		}
		channel, err := b.in.ReadByte()
		if err != nil {
			return broken(err)
		}
		switch n--; channel {
		case 1:
			if b.left = n; n > 0 {
				return nil
			}
		case 2: // how far it is
			if _, err := b.in.Discard(n); err != nil {
				return broken(err)
			}
		case 3:
			said := make([]byte, min(n, maxSaid))
			_, _ = io.ReadFull(b.in, said)
			return fmt.Errorf("git inside says %q", said)
		default:
			return fmt.Errorf("%w: channel %d", ErrAnswer, channel)
		}
	}
}
