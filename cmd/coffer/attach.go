package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/spf13/cobra"
)

func attachCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "attach [MATCH]",
		ValidArgsFunction: completeSandbox,
		Short:             "Watch a detached agent until it ends, and exit as it does",
		Long: `Watch an agent, or another program, that was started with --detach: what it has printed
and what it prints, until it ends. The exit code is the program's. Ctrl-C stops the
watching and not the program. To talk to the agent afterwards, 'coffer ai -m MATCH'.`,
		Example: "  id=$(coffer ai --detach claude \"fix issue 42\")\n  coffer attach $id",
		Args:    atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			sb, err := forName.choose(store, first(args))
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c)
			defer stop()
			return watch(ctx, sb)
		},
	}
}

// watch copies a sandbox's log until nothing runs in it.
func watch(ctx context.Context, sb *sandbox.Sandbox) error {
	out, finish := terminal.Guard(os.Stdout)
	defer finish()
	last := &tail{Writer: out}
	if err := printLog(ctx, last, supervisor.LogFile(sb), "no program has been run with --detach", func() bool { return hasProgram(sb) }); err != nil {
		return err
	}
	if t, err := agent.ReadTrace(sb.Dir()); err == nil {
		fmt.Fprintf(os.Stderr, "coffer: %s; talk to %s with 'coffer ai -m %s'\n", terminal.Escape(outcome(sb)), t.Agent, sb.Name)
		sayTaking(sb)
	}
	if code := last.status(); code != 0 {
		return status(code)
	}
	return nil
}

// hasProgram says whether programs run in a sandbox.
func hasProgram(sb *sandbox.Sandbox) bool {
	line, err := supervisor.Connect(sb)
	if err != nil {
		return false
	}
	defer line.Close()
	st, err := line.Status(false)
	return err == nil && st.Execs > 0
}

// tail remembers the end of what is written.
type tail struct {
	io.Writer
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	if extra := len(t.end) - 200; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	return t.Writer.Write(p)
}

// status is how the last program ended, by the supervisor's last line.
func (t *tail) status() int {
	if len(t.end) == 0 {
		return 0 // there was no program
	}
	lines := bytes.Split(bytes.TrimRight(t.end, "\n"), []byte("\n"))
	if word, ok := bytes.CutPrefix(lines[len(lines)-1], []byte("coffer: exit status ")); ok {
		if n, err := strconv.Atoi(string(word)); err == nil {
			return n
		}
	}
	return 125
}
