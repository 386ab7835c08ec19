package ui

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/terminal"
)

// Colours says whether the user wants them on a terminal.
func Colours() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// A Pager shows long texts on a terminal.
type Pager struct {
	Never   bool          // print it all at once
	Command func() string // the user's, a line for the shell
}

// Page is where text for a person goes: on a terminal, through the pager. Text from inside a
// sandbox must have been escaped by the writer: pagers let some control sequences pass. finish
// waits until the reader has read enough.
func (p Pager) Page(out *Output) (w io.Writer, finish func()) {
	name := ""
	if !p.Never && terminal.IsTerminal(1) && os.Getenv("TERM") != "dumb" {
		name = strings.TrimSpace(p.Command())
	}
	// A line of several words is run by a shell, as in git.
	if _, err := exec.LookPath(name); name == "" || name == "cat" || err != nil && !strings.ContainsAny(name, " \t|&;<>()$`\\\"'*?[#~=%") {
		return out, func() {}
	}
	c := exec.Command("/bin/sh", "-c", name)
	// Its programs must not be found in the current directory, which may be a sandbox's: as
	// [exec.LookPath] has it, for the shell too.
	c.Dir = "/"
	c.Stdout, c.Stderr, c.Env = out.To, os.Stderr, append(os.Environ(), "PWD=/", "PATH="+absolutePath(os.Getenv("PATH")))
	for _, e := range [][2]string{{"LESS", "FRX"}, {"LV", "-c"}} { // git's defaults
		if _, ok := os.LookupEnv(e[0]); !ok {
			c.Env = append(c.Env, e[0]+"="+e[1])
		}
	}
	in, err := c.StdinPipe()
	if err != nil {
		return out, func() {}
	}
	// Ctrl-C is for the pager: were this to end, the shell and the pager would both read
	// what is typed.
	Hear(make(chan os.Signal, 1), os.Interrupt, syscall.SIGQUIT)
	if err := c.Start(); err != nil {
		return out, func() {}
	}
	return in, func() {
		in.Close()
		_ = c.Wait()
	}
}

// Diff is Page for a diff, which is escaped and, on a terminal, coloured. A pipe gets it as it is.
func (p Pager) Diff(out *Output) (w io.Writer, finish func()) {
	if !terminal.IsTerminal(1) {
		return out, func() {}
	}
	to, read := p.Page(out)
	d := &painter{to: to, colours: Colours()}
	return d, func() {
		d.finish()
		read()
	}
}

// absolutePath is a PATH without what is relative to the current directory.
func absolutePath(path string) string {
	return strings.Join(slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) }), string(filepath.ListSeparator))
}

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
