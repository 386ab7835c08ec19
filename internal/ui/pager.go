package ui

import (
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
