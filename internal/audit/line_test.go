package audit

import (
	"bytes"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func exit(n int) *int { return &n }

func line(e Event) []byte {
	b, _ := appendLine(nil, 7, sum{1, 2}, encode(e))
	return b
}

// What is written is read back.
func TestLine(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)
	tests := map[string]struct{ in, want Event }{
		"flow":     {flow, flow},
		"least":    {Event{Time: at, Kind: KindStop}, Event{Time: at, Kind: KindStop}},
		"zone":     {Event{Time: at.In(time.FixedZone("x", 3600)), Kind: KindStop}, Event{Time: at, Kind: KindStop}},
		"v6":       {Event{Time: at, Kind: KindFlow, Addr: netip.MustParseAddr("fe80::1%eth\"0")}, Event{Time: at, Kind: KindFlow, Addr: netip.MustParseAddr("fe80::1%eth\"0")}},
		"exec":     {Event{Time: at, Kind: KindExec, Command: []string{"sh", "-c", "echo \"a\\b\"", ""}, Exit: exit(0), User: "me"}, Event{Time: at, Kind: KindExec, Command: []string{"sh", "-c", "echo \"a\\b\"", ""}, Exit: exit(0), User: "me"}},
		"controls": {Event{Time: at, Kind: KindFlow, Path: "/a\nb\r\x00\x1b[2J\x7f\u0085\u2028\u202e\U000e0001é漢🎉"}, Event{Time: at, Kind: KindFlow, Path: `/a\nb\r\x00\x1b[2J\x7f\u0085\u2028\u202e\U000e0001é漢🎉`}},
		"bytes":    {Event{Time: at, Kind: KindFlow, Path: "/\xff\xc3(\xed\xa0\x80"}, Event{Time: at, Kind: KindFlow, Path: `/\xff\xc3(\xed\xa0\x80`}},
		"numbers":  {Event{Time: at, Kind: KindFlow, Port: 65535, Sent: 1 << 62, Received: -1, Count: 3, Exit: exit(-1)}, Event{Time: at, Kind: KindFlow, Port: 65535, Sent: 1 << 62, Received: -1, Count: 3, Exit: exit(-1)}},
		"long":     {Event{Time: at, Kind: KindFlow, Host: strings.Repeat("a", 5000)}, Event{Time: at, Kind: KindFlow, Host: strings.Repeat("a", maxName) + "…(4488 more bytes)"}},
		"injected": {Event{Time: at, Kind: KindFlow, Host: `x","hash":"0"}` + "\n{"}, Event{Time: at, Kind: KindFlow, Host: `x\",\"hash\":\"0\"}\n{`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := line(test.in)
			rec, err := parseLine(bytes.TrimSuffix(b, []byte("\n")))
			must(t, err)
			if !reflect.DeepEqual(rec.Event, test.want) {
				t.Errorf("got  %+v\nwant %+v", rec.Event, test.want)
			}
			if rec.Seq != 7 || !strings.HasPrefix(rec.Prev, "010200") {
				t.Errorf("seq %d, prev %s", rec.Seq, rec.Prev)
			}
			checkPrintable(t, b)
		})
	}
}

// checkPrintable: one line, nothing in it that a terminal would act on.
func checkPrintable(t *testing.T, b []byte) {
	t.Helper()
	text, ended := strings.CutSuffix(string(b), "\n")
	if !ended || !utf8.ValidString(text) {
		t.Errorf("not a line of UTF-8: %q", b)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			t.Errorf("%q is in the line %q", r, b)
		}
	}
}

// The longest line that can be written is far from the longest that is read.
func TestLineBound(t *testing.T) {
	long := strings.Repeat("\x01\xff", 1<<20)
	many := make([]string, 1<<16)
	for i := range many {
		many[i] = long[:100]
	}
	b := line(Event{
		Kind: long, Host: long, Addr: netip.MustParseAddr("fe80::1").WithZone(long), Port: 1, Protocol: long,
		Verdict: long, Rule: long, Reason: long, Close: long, Method: long, Path: long, Command: many,
		User: long, Detail: long,
	})
	if len(b) > maxLine/2 {
		t.Errorf("%d bytes", len(b))
	}
	if _, err := parseLine(b[:len(b)-1]); err != nil {
		t.Error(err)
	}
	checkPrintable(t, b)
}

func TestParseLineRefuses(t *testing.T) {
	good := string(bytes.TrimSpace(line(flow)))
	if _, err := parseLine([]byte(good)); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		line string
		want error
	}{
		"empty":       {"", errShape},
		"other JSON":  {`{"seq":1}`, errShape},
		"cut":         {good[:len(good)-1], errShape},
		"more":        {good + " ", errShape},
		"space":       {strings.Replace(good, ":", ": ", 1), errSealed},
		"bad JSON":    {strings.Replace(good, `"kind"`, `"kind`, 1), errShape},
		"bad address": {strings.Replace(good, `"port":443`, `"addr":"x"`, 1), errShape},
		"changed":     {strings.Replace(good, "example.com", "example.org", 1), errSealed},
		"other seq":   {strings.Replace(good, `"seq":7`, `"seq":8`, 1), errSealed},
		"other prev":  {strings.Replace(good, `"prev":"01`, `"prev":"02`, 1), errSealed},
		"upper case":  {strings.ToUpper(good[:len(good)-66]) + strings.ToUpper(good[len(good)-66:]), errShape},
		"too long":    {good[:len(good)-tailSize] + strings.Repeat(" ", maxLine) + good[len(good)-tailSize:], errShape},
	}
	for name, test := range tests {
		if _, err := parseLine([]byte(test.line)); err != test.want {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// No line makes the reader fail, and what it accepts it accepts in one form only.
func FuzzParseLine(f *testing.F) {
	good := bytes.TrimSpace(line(flow))
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(`{"seq":1}`))
	f.Add([]byte(`{"seq":1,"time":"x","kind":"flow","prev":"","hash":""}`))
	f.Add(bytes.Replace(good, []byte("443"), []byte("99999999"), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := parseLine(b)
		if err != nil {
			return
		}
		start := bytes.IndexByte(b, ',') + 1
		again, own := appendLine(nil, rec.Seq, parseSum(rec.Prev), slices.Concat([]byte("{"), b[start:len(b)-tailSize], []byte("}")))
		if own != parseSum(rec.Hash) || !bytes.Equal(again, append(bytes.Clone(b), '\n')) {
			t.Errorf("accepted %q\nwould write %q", b, again)
		}
	})
}

// Whatever an event has in it, its line is one printable line that is read back.
func FuzzAppendLine(f *testing.F) {
	f.Add("flow", "example.com", "/a\nb", "GET", int64(1))
	f.Add("x", "\x1b]0;\a", "\xff\xfe\u202e", `","hash":"`, int64(-1))
	f.Fuzz(func(t *testing.T, kind, host, path, arg string, n int64) {
		e := Event{Kind: kind, Host: host, Path: path, Method: arg, Command: []string{arg, host}, Sent: n, Detail: path}
		b := line(e)
		checkPrintable(t, b)
		rec, err := parseLine(b[:len(b)-1])
		if err != nil && kind != "" {
			t.Fatalf("%v: %q", err, b)
		}
		if kind != "" && strconv.Quote(host) == `"`+host+`"` && len(host) < 50 && rec.Host != host {
			t.Errorf("host %q was read back as %q", host, rec.Host)
		}
	})
}
