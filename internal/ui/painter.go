package ui

import (
	"bytes"
	"io"
	"strings"

	"github.com/cofferhq/coffer/internal/terminal"
)

// A painter shows a diff to a person. The files are a stranger's: what filters let pass
// for programs, such as moving the cursor, would let one line wipe out another that the
// reader had better see. So all that is not plain text is spelled out.
type painter struct {
	to      io.Writer
	colours bool
	line    []byte // what has come of it
	hunk    bool   // lines of files come, not headers
	within  bool   // the beginning of the line was shown already
}

// longest is how much of a line is kept; what is longer is shown in parts.
const longest = 64 << 10

func (p *painter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte("\n"))
		p.line, b = append(p.line, part...), rest
		var err error
		switch {
		case whole:
			err = p.show("\n")
		case len(p.line) >= longest:
			err = p.show("")
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (p *painter) finish() {
	if len(p.line) > 0 {
		_ = p.show("")
	}
}

// show prints the line.
func (p *painter) show(end string) error {
	text := terminal.Content(string(p.line))
	p.line = p.line[:0]
	colour := ""
	within := p.within
	p.within = end == ""
	switch {
	case within: // it could look like the beginning of anything
	case strings.HasPrefix(text, "diff --git "):
		p.hunk, colour = false, "1"
	case strings.HasPrefix(text, "@@ "):
		p.hunk, colour = true, "36"
	case !p.hunk:
		colour = "1"
	case strings.HasPrefix(text, "+"):
		colour = "32"
	case strings.HasPrefix(text, "-"):
		colour = "31"
	}
	if p.colours && colour != "" {
		text = "\x1b[" + colour + "m" + text + "\x1b[m"
	}
	_, err := io.WriteString(p.to, text+end)
	return err
}
