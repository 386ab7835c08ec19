package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

var auditTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)

func TestEventLine(t *testing.T) {
	seven := 7
	tests := map[string]struct {
		event audit.Event
		want  string
	}{
		"flow": {
			audit.Event{Kind: "flow", Host: "api.example.com", Port: 443, Verdict: "allow", Rule: "agents", Reason: "a rule allows it", Sent: 1234, Received: 56789012, Close: "closed", Protocol: "tls", Addr: netip.MustParseAddr("2001:db8::1"), Duration: 61 * time.Second},
			"flow       allow    api.example.com:443                      1.2kB      54MB    1m1s  agents            tls to 2001:db8::1; closed",
		},
		"denied": {
			audit.Event{Kind: "flow", Addr: netip.MustParseAddr("2001:db8::1"), Port: 80, Verdict: "deny", Rule: "default", Reason: "no rule allows it", Method: "GET", Path: "/x", Protocol: "http"},
			"flow       deny     [2001:db8::1]:80                            0B        0B       -  default           http; GET /x; no rule allows it",
		},
		"name": {
			audit.Event{Kind: "dns", Host: "evil.example", Verdict: "deny", Rule: "default", Count: 12},
			"dns        deny     evil.example                                 -         -       -  default           12 times",
		},
		"program": {
			audit.Event{Kind: "exec", Command: []string{"make", "test"}, Exit: &seven, User: "me"},
			"exec       -        make test                                    -         -       -  -                 exit 7",
		},
		"long": {
			audit.Event{Kind: "exec", Command: []string{"sh", "-c", "make all the things that there are"}, Detail: "in /x"},
			"exec       -        sh -c make all the things that ther…         -         -       -  -                 sh -c make all the things that there are; in /x",
		},
		"least": {audit.Event{Kind: "stop"}, "stop       -        -                                            -         -       -  -"},
		"hostile": {
			audit.Event{Kind: "flow", Host: "a\x1b[2J\n\u202eb", Path: "\x9b", Verdict: "deny"},
			`flow       deny     a\x1b[2J\x0a\u202eb                         0B        0B       -  -                 \x9b`,
		},
	}
	for name, test := range tests {
		test.event.Time = auditTime
		want := "2026-01-02 03:04:05  " + test.want
		if got := eventLine(&test.event); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1: "1B", 999: "999B", 1000: "1.0kB", 1234: "1.2kB", 9949: "9.7kB", 12345: "12kB", 999499: "976kB",
		1 << 20: "1.0MB", 1e9: "954MB", -5: "-5B",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"":                          {},
		"1h":                        now.Add(-time.Hour),
		"1h30m":                     now.Add(-90 * time.Minute),
		"2d":                        now.Add(-48 * time.Hour),
		"0.5d":                      now.Add(-12 * time.Hour),
		"0s":                        now,
		"2026-05-01":                time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		"2026-05-01 10:20":          time.Date(2026, 5, 1, 10, 20, 0, 0, time.UTC),
		"2026-05-01T10:20:30Z":      time.Date(2026, 5, 1, 10, 20, 30, 0, time.UTC),
		"2026-05-01T10:20:30+02:00": time.Date(2026, 5, 1, 8, 20, 30, 0, time.UTC),
	} {
		got, err := parseSince(in, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: got %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"yesterday", "-1h", "-2d", "5", "d", "nand", "infd", "2026-13-01"} {
		if got, err := parseSince(in, now); !errors.As(err, new(usage)) || ui.HintOf(err) == "" {
			t.Errorf("%q: got %s, %v", in, got, err)
		}
	}
}

// audited is a stopped sandbox with these events.
func audited(t *testing.T, events ...audit.Event) *sandbox.Sandbox {
	t.Helper()
	store, err := sandbox.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Name: "parser", Workspace: sandbox.Workspace{Mode: sandbox.WorkspaceNone}})
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	log, err := (audit.Options{}).Open(audit.Dir(sb.Dir()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		log.Add(e)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return sb
}

func TestPrintAudit(t *testing.T) {
	sb := audited(t,
		audit.Event{Time: auditTime, Kind: audit.KindStart},
		audit.Event{Time: auditTime, Kind: audit.KindFlow, Host: "example.com", Port: 443, Verdict: "allow"},
		audit.Event{Time: auditTime, Kind: audit.KindDNS, Host: "evil.example", Verdict: "deny"},
	)
	ctx := context.Background()
	show := func(f func(out *bytes.Buffer) error) []string {
		t.Helper()
		var out bytes.Buffer
		if err := f(&out); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		ok := len(got) == len(want)
		for i := range min(len(got), len(want)) {
			ok = ok && strings.Contains(got[i], want[i])
		}
		if !ok {
			t.Errorf("%s:\n%s\nwant %q", what, strings.Join(got, "\n"), want)
		}
	}
	for _, follow := range []bool{false, true} { // it is stopped, so following ends
		check("all", show(func(out *bytes.Buffer) error {
			_, err := printAudit(ctx, out, sb, audit.Filter{}, false, follow)
			return err
		}), "TIME", "start", "flow", "dns")
		check("network", show(func(out *bytes.Buffer) error { return printNetwork(ctx, out, sb, follow) }),
			"TIME", "example.com:443", "evil.example")
		check("JSON", show(func(out *bytes.Buffer) error {
			_, err := printAudit(ctx, out, sb, audit.Filter{Verdict: "deny"}, true, follow)
			return err
		}), `"host":"evil.example"`)
	}

	file := filepath.Join(audit.Dir(sb.Dir()), "events-000001.jsonl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("evil"), []byte("good"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, err = printAudit(ctx, &out, sb, audit.Filter{}, false, false)
	if !errors.Is(err, audit.ErrDamaged) || ui.HintOf(err) != "see 'coffer audit verify "+sb.Name+"'" {
		t.Errorf("damaged: %v, hint %q", err, ui.HintOf(err))
	}
	if !strings.Contains(out.String(), "good.example") {
		t.Errorf("what can be read was not shown:\n%s", out.String())
	}
}

func TestPrintSummary(t *testing.T) {
	for want, s := range map[string]audit.Summary{
		"0 events; in order\n": {},
		"1 event from 2026-01-02 03:04:05 to 2026-01-02 03:04:05; in order\n":                                            {Events: 1, First: auditTime, Last: auditTime},
		"0 events; 7 older ones were removed to keep the log small; the last line is not finished (9 bytes); in order\n": {Rotated: 7, Torn: 9},
		"a\\x1b\nb\n0 events; 2 problems\n": {Problems: []string{"a\x1b", "b"}},
	} {
		var out bytes.Buffer
		printSummary(&out, s)
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}
