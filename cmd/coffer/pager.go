package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/interrupt"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/spf13/cobra"
)

// pagerFlag says that what is long is to go by.
func pagerFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "no-pager", false, "print it all at once, also on a terminal")
}

// pagerCommand is what git would show long texts with.
func pagerCommand() string {
	if value, ok := os.LookupEnv("GIT_PAGER"); ok {
		return value
	}
	if value, ok := git.OwnSetting("core.pager"); ok {
		return value
	}
	if value, ok := os.LookupEnv("PAGER"); ok {
		return value
	}
	return "less"
}

// page is where text for a person goes: on a terminal, through the user's pager. The text
// is a stranger's, so who writes it must have spelled out what could command a terminal:
// pagers let some of it pass. finish waits until the reader has read enough.
func page(never bool) (w io.Writer, finish func()) {
	name := ""
	if !never && terminal.IsTerminal(1) && os.Getenv("TERM") != "dumb" {
		name = strings.TrimSpace(pagerCommand())
	}
	// More than a word is a shell's business, as in git.
	if _, err := exec.LookPath(name); name == "" || name == "cat" || err != nil && !strings.ContainsAny(name, " \t|&;<>()$`\\\"'*?[#~=%") {
		return stdout, func() {}
	}
	c := exec.Command("/bin/sh", "-c", name)
	// What it is made of must not be found in the directory that we are in, which may be a
	// sandbox's: as [exec.LookPath] has it, for the shell too.
	c.Dir = "/"
	c.Stdout, c.Stderr, c.Env = stdout.to, os.Stderr, append(os.Environ(), "PWD=/", "PATH="+absolutePath(os.Getenv("PATH")))
	for _, e := range [][2]string{{"LESS", "FRX"}, {"LV", "-c"}} { // as git has them
		if _, ok := os.LookupEnv(e[0]); !ok {
			c.Env = append(c.Env, e[0]+"="+e[1])
		}
	}
	in, err := c.StdinPipe()
	if err != nil {
		return stdout, func() {}
	}
	// Ctrl-C is for the pager: were this to end, the shell and the pager would both read
	// what is typed.
	interrupt.Hear(make(chan os.Signal, 1), os.Interrupt, syscall.SIGQUIT)
	if err := c.Start(); err != nil {
		return stdout, func() {}
	}
	return in, func() {
		in.Close()
		_ = c.Wait()
	}
}

// absolutePath is a PATH without what is relative to the current directory.
func absolutePath(path string) string {
	return strings.Join(slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) }), string(filepath.ListSeparator))
}

// readEnough makes nothing of it if the reader has left the pager before the end.
func readEnough(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
