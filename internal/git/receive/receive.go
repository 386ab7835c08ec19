// Package receive is the server's side of git push, as far as a gateway needs it: it says
// which refs there are, reads which of them a client wants changed, and answers. Of git
// fetch it has as much as says where refs are; see [Offer].
//
// The client is git inside a sandbox, or whoever says so. Nothing of what it sends is
// given to git: the commands are parsed here, and the pack that follows them is counted and
// thrown away, because the objects come out by another way, on which they are checked.
package receive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of one push.
const (
	MaxCommands = 32
	MaxPack     = 2 << 30
	maxName     = 250
	maxLine     = 1024 // the names and the longest list of capabilities that git sends
	maxShallow  = 1 << 12
)

// A Command is a ref that a client wants changed. Old is what the client thinks it is, and
// New what it is to be; "" is for none.
type Command struct {
	Ref      string
	Old, New string
}

// Branch is the branch that it is about, or "" if it is about no branch.
func (c Command) Branch() string {
	name, ok := strings.CutPrefix(c.Ref, "refs/heads/")
	if !ok {
		return ""
	}
	return name
}

// A Ref is what there is already. Peeled is what a tag is of, for [Offer].
type Ref struct{ Name, ID, Peeled string }

// Advertise says what there is: refs that can be changed, and other commits whose objects
// need not be sent.
func Advertise(w io.Writer, format string, refs []Ref, have []string) error {
	out := bufio.NewWriter(w)
	line(out, "# service=git-receive-pack\n")
	flush(out)
	caps := "\x00report-status delete-refs side-band-64k ofs-delta object-format=" + format + " agent=coffer"
	for _, r := range refs {
		line(out, r.ID+" "+r.Name+caps+"\n")
		caps = ""
	}
	for _, id := range have {
		line(out, id+" .have"+caps+"\n")
		caps = ""
	}
	if caps != "" {
		line(out, strings.Repeat("0", size(format))+" capabilities^{}"+caps+"\n")
	}
	flush(out)
	return out.Flush()
}

// ErrRequest is wrapped by every error about a request that no git would make.
var ErrRequest = errors.New("not a request of git push")

// Read reads the commands and throws away the pack behind them. No command at all is what
// git sends to find out whether it may.
func Read(r io.Reader, format string) ([]Command, error) {
	in := bufio.NewReader(r)
	commands, packed, err := readCommands(in, format)
	if err != nil || !packed {
		return commands, err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(in, MaxPack+1))
	if err == nil && n > MaxPack {
		err = fmt.Errorf("%w: more than %d bytes", ErrRequest, int64(MaxPack))
	}
	return commands, err
}

func readCommands(in io.Reader, format string) (commands []Command, packed bool, err error) {
	bad := func(what string) ([]Command, bool, error) { return nil, false, fmt.Errorf("%w: %s", ErrRequest, what) }
	seen := map[string]bool{}
	for shallow := 0; ; {
		text, end, err := readLine(in)
		if err != nil {
			return nil, false, err
		}
		if end {
			return commands, packed, nil
		}
		if strings.HasPrefix(text, "shallow ") && len(commands) == 0 {
			if shallow++; shallow > maxShallow {
				return bad("too shallow")
			}
			continue
		}
		text, caps, first := strings.Cut(text, "\x00")
		if first != (len(commands) == 0) {
			return bad("capabilities in the wrong place")
		}
		if first {
			words := " " + strings.TrimSuffix(caps, "\n") + " "
			if !strings.Contains(words, " report-status ") || !strings.Contains(words, " side-band-64k ") {
				return bad("the client does not want to know what became of it")
			}
		}
		c, ok := parse(strings.TrimSuffix(text, "\n"), format)
		switch {
		case !ok:
			return bad("a line that is no command")
		case seen[c.Ref]:
			return bad("two commands about the same ref")
		case len(commands) == MaxCommands:
			return bad(fmt.Sprintf("more than %d refs at once", MaxCommands))
		}
		seen[c.Ref] = true
		commands = append(commands, c)
		packed = packed || c.New != ""
	}
}

func parse(text, format string) (c Command, ok bool) {
	n := size(format)
	if len(text) < 2*n+3 || text[n] != ' ' || text[2*n+1] != ' ' {
		return c, false
	}
	c = Command{Old: text[:n], New: text[n+1 : 2*n+1], Ref: text[2*n+2:]}
	for _, id := range []*string{&c.Old, &c.New} {
		if strings.Trim(*id, "0123456789abcdef") != "" {
			return c, false
		}
		if strings.Trim(*id, "0") == "" {
			*id = ""
		}
	}
	return c, ValidRef(c.Ref) && (c.Old != "" || c.New != "")
}

// ValidRef says whether a name is one that git gives to refs, and that nobody takes for
// something else: an option, an expression or a pattern. It is stricter than git itself.
func ValidRef(name string) bool {
	if len(name) > maxName || !strings.HasPrefix(name, "refs/") || !utf8.ValidString(name) ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return false
	}
	for _, r := range name {
		if r <= ' ' || r >= 0x7f && r <= 0x9f || strings.ContainsRune("~^:?*[\\\u2028\u2029\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff", r) {
			return false
		}
	}
	parts := strings.Split(name, "/")
	for _, part := range parts {
		if part == "" || part == "@" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return len(parts) >= 3 && parts[2] != "HEAD"
}

// size is the length of an object's name.
func size(format string) int {
	if format == "sha256" {
		return 64
	}
	return 40
}

// readLine reads one pkt-line. end says that it was the one that ends a list.
func readLine(in io.Reader) (text string, end bool, err error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	switch {
	case err != nil || n > 0 && n < 5 || n > maxLine+4:
		return "", false, fmt.Errorf("%w: a line of length %q", ErrRequest, head[:])
	case n == 0:
		return "", true, nil
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(in, body); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return string(body), false, nil
}

func line(w io.Writer, text string) { fmt.Fprintf(w, "%04x%s", len(text)+4, text) }

func flush(w io.Writer) { io.WriteString(w, "0000") }

// An Answer is told to the client bit by bit.
type Answer struct {
	W     io.Writer
	Flush func() // after each thing said; may be nil
}

// Say tells the user of git a line, which git prints behind "remote:".
func (a Answer) Say(text string) {
	const most = 900
	text = clean(text)
	for len(text) > most {
		n := most
		for !utf8.RuneStart(text[n]) {
			n--
		}
		line(a.W, "\x02"+text[:n]+"\n")
		text = text[n:]
	}
	line(a.W, "\x02"+text+"\n")
	if a.Flush != nil {
		a.Flush()
	}
}

// A Result says what became of a ref: Reason is why nothing did.
type Result struct{ Ref, Reason string }

// End tells what became of all of them.
func (a Answer) End(results []Result) {
	var report strings.Builder
	line(&report, "unpack ok\n")
	for _, r := range results {
		if r.Reason == "" {
			line(&report, "ok "+r.Ref+"\n")
			continue
		}
		reason := clean(r.Reason)
		line(&report, "ng "+r.Ref+" "+reason[:min(len(reason), 300)]+"\n")
	}
	flush(&report)
	for text := report.String(); text != ""; {
		n := min(len(text), 4096)
		line(a.W, "\x01"+text[:n])
		text = text[n:]
	}
	flush(a.W)
	if a.Flush != nil {
		a.Flush()
	}
}

// clean keeps a line a line.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
