package main

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/terminal"
)

const (
	eventForm   = "%-19s  %-9s  %-7s  %-36s  %8s  %8s  %6s  %-16s  %s"
	targetWidth = 36
)

func eventHeader() string {
	return fmt.Sprintf(eventForm, "TIME", "KIND", "VERDICT", "TARGET", "SENT", "RECEIVED", "LASTED", "RULE", "DETAIL")
}

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

// lasted is a duration in few characters.
func lasted(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Second:
		return fmt.Sprintf("%dms", max(1, d.Milliseconds()))
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// cell is a column that is never empty, so that programs can count them.
func cell(s string) string { return cmp.Or(terminal.Escape(s), "-") }

// target is what the event is about.
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

// remarks is what else is known.
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

// size is a number of bytes in few characters.
func size(n int64) string {
	units := []string{"", "k", "M", "G", "T", "P", "E"}
	f := float64(n)
	for len(units) > 1 && f >= 999.5 {
		f /= 1000
		units = units[1:]
	}
	if units[0] == "" || f >= 9.95 {
		return fmt.Sprintf("%.0f%sB", f, units[0])
	}
	return fmt.Sprintf("%.1f%sB", f, units[0])
}
