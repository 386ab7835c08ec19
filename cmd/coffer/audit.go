package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func auditCommand() *cobra.Command {
	var since string
	var filter audit.Filter
	var asJSON, follow bool
	c := &cobra.Command{
		Use:   "audit [MATCH]",
		Short: "Show what a sandbox did: connections, refusals, programs",
		Long: `Show the log of what a sandbox did. It is written outside the sandbox, which can
neither read nor change it. With --json, every line is as it stands in the log.`,
		Example: `  coffer audit parser --since 1h
  coffer audit --verdict deny -f
  coffer audit verify parser`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if filter.Since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
			for _, k := range filter.Kinds {
				if !slices.Contains(audit.Kinds(), k) {
					return ui.Hint(usagef("there is no kind of event %q", k), "the kinds are %s", strings.Join(audit.Kinds(), ", "))
				}
			}
			if v := filter.Verdict; v != "" && v != "allow" && v != "deny" && v != "ask" {
				return usagef("there is no verdict %q: want allow, deny or ask", v)
			}
			sb, err := chooseAudited(args)
			if err != nil {
				return err
			}
			out, finish := stdout.Guarded()
			defer finish()
			shown, err := printAudit(c.Context(), out, sb, filter, asJSON, follow)
			if shown == 0 && err == nil {
				fmt.Fprintf(os.Stderr, "coffer: nothing in the log of sandbox %s is what you asked for\nhint: 'coffer audit %[1]s' shows all of it\n", sb.Name)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&since, "since", "", "only what happened since then: `WHEN` is a time ago, such as 90m or 2d, or a date")
	f.StringSliceVar(&filter.Kinds, "kind", nil, "only events of this `KIND`, such as flow, dns or exec")
	f.StringVar(&filter.Host, "host", "", "only events about this `HOST`, or *.HOST for all below it")
	f.StringVar(&filter.Verdict, "verdict", "", "only what was decided so: `VERDICT` is allow, deny or ask")
	f.IntVarP(&filter.Limit, "last", "n", 0, "only the last `N` events")
	f.BoolVar(&asJSON, "json", false, "print JSON, one event a line")
	f.BoolVarP(&follow, "follow", "f", false, "go on until the sandbox stops")
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(audit.Kinds(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("verdict", cobra.FixedCompletions([]string{"allow", "deny", "ask"}, cobra.ShellCompDirectiveNoFileComp))
	c.AddCommand(auditVerifyCommand())
	return c
}

func auditVerifyCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify [MATCH]",
		Short: "Check that nobody has changed a sandbox's log",
		Long: `Check every line of a sandbox's log against the one before. A line that was changed,
removed, added or moved is found. Exit status 1 means that something was. Who can write
your files could make up a whole new log; that is not found.`,
		Example: "  coffer audit verify parser",
		RunE: func(c *cobra.Command, args []string) error {
			sb, err := chooseAudited(args)
			if err != nil {
				return err
			}
			s, err := audit.Verify(audit.Dir(sb.Dir()))
			if err != nil {
				return fmt.Errorf("verify the log of sandbox %s: %w", sb.Name, err)
			}
			if asJSON {
				err = printJSON(s)
			} else {
				printSummary(stdout, s)
			}
			if err == nil && len(s.Problems) > 0 {
				return status(1)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func chooseAudited(args []string) (*sandbox.Sandbox, error) {
	sb, err := forName.chosen(first(args))
	if err == nil || len(args) == 0 {
		return sb, err
	}
	if jail := findJail(args[0]); jail != nil {
		return jail, nil
	}
	// One that is gone, whose log the administrator wants to be kept.
	dir, dirErr := sandbox.DefaultDir()
	if dirErr != nil {
		return nil, err
	}
	if kept, keptErr := sandbox.Open(sandbox.KeptStore(dir)); keptErr == nil {
		if gone, goneErr := kept.Find(args[0]); goneErr == nil {
			return gone, nil
		}
	}
	return nil, err
}

func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok && err != nil {
		var n float64
		if n, err = strconv.ParseFloat(days, 64); n < 36500 {
			d = time.Duration(n * 24 * float64(time.Hour))
		} else {
			d = -1
		}
	}
	if err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, ui.Hint(usagef("%q is not a time", s), "say how long ago, such as 90m or 2d, or a date such as %s", now.Format(time.DateOnly))
}

func printNetwork(ctx context.Context, out io.Writer, sb *sandbox.Sandbox, follow bool) error {
	filter := audit.Filter{Kinds: []string{audit.KindFlow, audit.KindDNS, audit.KindLimit}}
	shown, err := printAudit(ctx, out, sb, filter, false, follow)
	if shown == 0 && err == nil {
		fmt.Fprintf(os.Stderr, "coffer: no program in sandbox %s has used the network so far\n"+
			"hint: 'coffer policy show --sandbox %[1]s' says what it may reach, 'coffer audit %[1]s' what else happened\n", sb.Name)
	}
	return err
}

// printAudit shows events, with follow until the sandbox stops, and returns how many there were.
func printAudit(ctx context.Context, out io.Writer, sb *sandbox.Sandbox, filter audit.Filter, asJSON, follow bool) (shown int, err error) {
	buffered := bufio.NewWriter(out)
	show := func(r audit.Record) error {
		if shown++; shown == 1 && !asJSON {
			fmt.Fprintf(buffered, eventForm+"\n", "TIME", "KIND", "VERDICT", "TARGET", "SENT", "RECEIVED", "LASTED", "RULE", "DETAIL")
		}
		if asJSON {
			buffered.Write(terminal.JSON(r.Line()))
			buffered.WriteByte('\n')
		} else {
			fmt.Fprintln(buffered, eventLine(&r.Event))
		}
		if follow {
			return buffered.Flush()
		}
		return nil
	}
	if dir := audit.Dir(sb.Dir()); follow {
		err = followAudit(ctx, sb, dir, filter, show)
	} else {
		err = audit.Read(dir, filter, show)
	}
	if flushErr := buffered.Flush(); err == nil {
		err = flushErr
	}
	if errors.Is(err, audit.ErrDamaged) {
		err = ui.Hint(err, "see 'coffer audit verify %s'", sb.Name)
	}
	return shown, err
}

func followAudit(ctx context.Context, sb *sandbox.Sandbox, dir string, filter audit.Filter, show func(audit.Record) error) error {
	stopped := errors.New("the sandbox has stopped")
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		for sb.Running() && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		stop(stopped)
	}()
	err := audit.Follow(ctx, dir, filter, show)
	if errors.Is(err, stopped) && !errors.Is(err, audit.ErrDamaged) {
		return nil
	}
	return err
}

func printSummary(out io.Writer, s audit.Summary) {
	for _, p := range s.Problems {
		fmt.Fprintln(out, terminal.Escape(p))
	}
	parts := []string{count(s.Events, "event")}
	if s.Events > 0 {
		parts[0] += fmt.Sprintf(" from %s to %s", s.First.Local().Format(time.DateTime), s.Last.Local().Format(time.DateTime))
	}
	if s.Rotated > 0 {
		parts = append(parts, fmt.Sprintf("%d older ones were removed to keep the log small", s.Rotated))
	}
	if s.Torn > 0 {
		parts = append(parts, fmt.Sprintf("the last line is not finished (%d bytes)", s.Torn))
	}
	if n := len(s.Problems); n > 0 {
		parts = append(parts, count(n, "problem"))
	} else {
		parts = append(parts, "in order")
	}
	fmt.Fprintln(out, strings.Join(parts, "; "))
}

const (
	eventForm   = "%-19s  %-9s  %-7s  %-36s  %8s  %8s  %6s  %-16s  %s"
	targetWidth = 36
)

// eventLine is an event on one line. Parts of it come from inside the sandbox.
func eventLine(e *audit.Event) string {
	sent, received := "-", "-"
	if e.Kind == audit.KindFlow || e.Sent != 0 || e.Received != 0 {
		sent, received = size(e.Sent), size(e.Received)
	}
	about, rest := cell(target(e)), remarks(e)
	if all := []rune(about); len(e.Command) > 0 && len(all) > targetWidth {
		about, rest = string(all[:targetWidth-1])+"…", about+"; "+rest
	}
	line := fmt.Sprintf(eventForm, e.Time.Local().Format(time.DateTime), cell(e.Kind), cell(e.Verdict), about,
		sent, received, lasted(e.Duration), cell(e.Rule), strings.TrimSuffix(rest, "; "))
	return strings.TrimRight(line, " ")
}

func lasted(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Second:
		return max(d.Round(time.Millisecond), time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// cell is a column that is never empty, so that programs can count them.
func cell(s string) string { return cmp.Or(terminal.Escape(s), "-") }

func target(e *audit.Event) string {
	if len(e.Command) > 0 {
		return brief(e.Kind, strings.Join(e.Command, " "))
	}
	host := e.Host
	if host == "" && e.Addr.IsValid() {
		host = e.Addr.String()
	}
	if e.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(e.Port)))
}

// brief shortens the names of commits in what is about git. With --json they are whole.
func brief(kind, text string) string {
	if kind != audit.KindGit {
		return text
	}
	return fullName().ReplaceAllStringFunc(text, short12)
}

var fullName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b`) })

func remarks(e *audit.Event) string {
	var all []string
	say := func(s string) {
		if s != "" {
			all = append(all, terminal.Escape(s))
		}
	}
	if e.Host != "" && e.Addr.IsValid() && e.Host != e.Addr.String() {
		say(e.Protocol + " to " + e.Addr.String())
	} else if e.Kind != audit.KindDNS {
		say(e.Protocol)
	}
	say(strings.TrimSpace(e.Method + " " + e.Path))
	if e.Verdict != "allow" {
		say(e.Reason)
	}
	say(e.Close)
	if e.Exit != nil {
		say(fmt.Sprintf("exit %d", *e.Exit))
	}
	if e.Count > 0 {
		say(fmt.Sprintf("%d times", e.Count))
	}
	say(brief(e.Kind, e.Detail))
	return strings.Join(all, "; ")
}

func size(n int64) string {
	f, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for len(units) > 1 && f >= 1000 {
		f, units = f/1024, units[1:]
	}
	if units[0] == "B" || f >= 9.95 {
		return fmt.Sprintf("%.0f%s", f, units[0])
	}
	return fmt.Sprintf("%.1f%s", f, units[0])
}
