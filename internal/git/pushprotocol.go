package git

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The server's side of git push, and as much of git fetch as lists refs.
//
// The client is a stranger. Nothing it sends is given to git: its commands are parsed
// here, and the pack behind them is counted and discarded, because the objects come out
// by [Bridge.Sync], which checks them.

// Bounds of one push.
const (
	MaxPushPack     = 2 << 30
	maxPushCommands = 32
	maxRefName      = 250
	maxPushLine     = 1024 // the names and the longest list of capabilities that git sends
	maxShallow      = 1 << 12
)

// A PushCommand is a ref that a client wants changed. Old is what the client believes it
// is, New what it is to be; "" is no commit.
type PushCommand struct {
	Ref      string
	Old, New string
}

// Branch is the branch of the command, or "" if its ref is not a branch.
func (c PushCommand) Branch() string {
	name, ok := strings.CutPrefix(c.Ref, "refs/heads/")
	if !ok {
		return ""
	}
	return name
}

// AdvertisePush lists the refs that a client may change, and commits it need not send.
func AdvertisePush(w io.Writer, format string, refs []Ref, have []string) error {
	out := bufio.NewWriter(w)
	pktLine(out, "# service=git-receive-pack\n")
	pktFlush(out)
	caps := "\x00report-status delete-refs side-band-64k ofs-delta object-format=" + format + " agent=coffer"
	say := func(id, name string) {
		pktLine(out, id+" "+name+caps+"\n")
		caps = ""
	}
	for _, r := range refs {
		say(r.ID, r.Name)
	}
	for _, id := range have {
		say(id, ".have")
	}
	if caps != "" {
		say(strings.Repeat("0", idLength(format)), "capabilities^{}")
	}
	pktFlush(out)
	return out.Flush()
}

// OfferRefsHTTP is OfferRefs over HTTP.
func OfferRefsHTTP(w io.Writer, format string, refs []Ref, head string) error {
	pktLine(w, "# service=git-upload-pack\n")
	pktFlush(w)
	return OfferRefs(w, format, refs, head)
}

// OfferRefs is the server's side of a git fetch that needs no objects: it lists refs.
// head is the ref that HEAD stands for, or "".
func OfferRefs(w io.Writer, format string, refs []Ref, head string) error {
	out := bufio.NewWriter(w)
	caps := "\x00multi_ack_detailed thin-pack side-band-64k ofs-delta object-format=" + format + " agent=coffer"
	say := func(id, name string) {
		pktLine(out, id+" "+name+caps+"\n")
		caps = ""
	}
	for _, r := range refs {
		if r.Name == head {
			caps = strings.Replace(caps, " agent=", " symref=HEAD:"+head+" agent=", 1)
			say(r.ID, "HEAD")
		}
	}
	for _, r := range refs {
		say(r.ID, r.Name)
		if r.Peeled != "" {
			say(r.Peeled, r.Name+"^{}")
		}
	}
	if caps != "" {
		say(strings.Repeat("0", idLength(format)), "capabilities^{}")
	}
	pktFlush(out)
	return out.Flush()
}

// ErrNoObjects is the answer to a client that asks for objects after [OfferRefs].
var ErrNoObjects = errors.New("objects are not sent here: fetch with 'git fetch upstream' in the repository of the sandbox")

// RefuseFetch ends a fetch with an error, which git prints.
func RefuseFetch(w io.Writer, why error) { pktLine(w, "ERR "+oneLine(why.Error())+"\n") }

// ErrPushRequest is wrapped by every error about a request that no git would make.
var ErrPushRequest = errors.New("not a request of git push")

// ReadPush reads the commands of a push and discards the pack behind them. Git sends no
// command at all to find out whether it may push.
func ReadPush(r io.Reader, format string) ([]PushCommand, error) {
	in := bufio.NewReader(r)
	commands, packed, err := readCommands(in, format)
	if err != nil || !packed {
		return commands, err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(in, MaxPushPack+1))
	if err == nil && n > MaxPushPack {
		err = fmt.Errorf("%w: more than %d bytes", ErrPushRequest, int64(MaxPushPack))
	}
	return commands, err
}

func readCommands(in io.Reader, format string) (commands []PushCommand, packed bool, err error) {
	bad := func(what string) ([]PushCommand, bool, error) {
		return nil, false, fmt.Errorf("%w: %s", ErrPushRequest, what)
	}
	seen := map[string]bool{}
	for shallow := 0; ; {
		text, end, err := readPktLine(in)
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
				return bad("the client does not want a report")
			}
		}
		c, ok := parseCommand(strings.TrimSuffix(text, "\n"), format)
		switch {
		case !ok:
			return bad("a line that is no command")
		case seen[c.Ref]:
			return bad("two commands about the same ref")
		case len(commands) == maxPushCommands:
			return bad(fmt.Sprintf("more than %d refs at once", maxPushCommands))
		}
		seen[c.Ref] = true
		commands = append(commands, c)
		packed = packed || c.New != ""
	}
}

func parseCommand(text, format string) (c PushCommand, ok bool) {
	n := idLength(format)
	if len(text) < 2*n+3 || text[n] != ' ' || text[2*n+1] != ' ' {
		return c, false
	}
	c = PushCommand{Old: text[:n], New: text[n+1 : 2*n+1], Ref: text[2*n+2:]}
	for _, id := range []*string{&c.Old, &c.New} {
		if !isID(*id) {
			return c, false
		}
		if strings.Trim(*id, "0") == "" {
			*id = ""
		}
	}
	return c, ValidRef(c.Ref) && (c.Old != "" || c.New != "")
}

// ValidRef reports whether git accepts a name for a ref and nobody takes it for an option,
// an expression or a pattern. It is stricter than git itself.
func ValidRef(name string) bool {
	if len(name) > maxRefName || !strings.HasPrefix(name, "refs/") || !utf8.ValidString(name) ||
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

// idLength is the length of an object's name in hexadecimal digits.
func idLength(format string) int {
	if format == "sha256" {
		return 64
	}
	return 40
}

// readPktLine reads one line: its length in four hexadecimal digits, and its text. end
// reports the flush that ends a list.
func readPktLine(in io.Reader) (text string, end bool, err error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrPushRequest, err)
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	switch {
	case err != nil || n > 0 && n < 5 || n > maxPushLine+4:
		return "", false, fmt.Errorf("%w: a line of length %q", ErrPushRequest, head[:])
	case n == 0:
		return "", true, nil
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(in, body); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrPushRequest, err)
	}
	return string(body), false, nil
}

func pktLine(w io.Writer, text string) { fmt.Fprintf(w, "%04x%s", len(text)+4, text) }

func pktFlush(w io.Writer) { io.WriteString(w, "0000") }

// A PushAnswer is sent to the client as it comes.
type PushAnswer struct {
	W     io.Writer
	Flush func() // called after each line; may be nil
}

// Say sends a line that git prints behind "remote:".
func (a PushAnswer) Say(text string) {
	const most = 900
	text = oneLine(text)
	for len(text) > most {
		n := most
		for !utf8.RuneStart(text[n]) {
			n--
		}
		pktLine(a.W, "\x02"+text[:n]+"\n")
		text = text[n:]
	}
	pktLine(a.W, "\x02"+text+"\n")
	if a.Flush != nil {
		a.Flush()
	}
}

// A PushResult is what became of a ref. Reason is why it was not moved, or "".
type PushResult struct{ Ref, Reason string }

// End reports what became of all refs.
func (a PushAnswer) End(results []PushResult) {
	var report strings.Builder
	pktLine(&report, "unpack ok\n")
	for _, r := range results {
		if r.Reason == "" {
			pktLine(&report, "ok "+r.Ref+"\n")
			continue
		}
		reason := oneLine(r.Reason)
		pktLine(&report, "ng "+r.Ref+" "+reason[:min(len(reason), 300)]+"\n")
	}
	pktFlush(&report)
	for text := report.String(); text != ""; {
		n := min(len(text), 4096)
		pktLine(a.W, "\x01"+text[:n])
		text = text[n:]
	}
	pktFlush(a.W)
	if a.Flush != nil {
		a.Flush()
	}
}

// oneLine replaces control characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
