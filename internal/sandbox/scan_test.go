package sandbox

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// everything is a record with all fields that scan knows.
func everything() Record {
	return Record{
		Version: recordVersion, ID: "abcdefgh", Name: "parser", Created: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
		Once: true, Nesting: true, MadeGit: true,
		Workspace: Workspace{Path: "/home/zoë/src <&> é", Mode: WorkspaceDirect, Start: "dir/é"},
		Limits:    Limits{Memory: 1 << 40, Pids: 7, OpenFiles: 100, Timeout: time.Hour, Idle: time.Minute},
		Env:       []string{"A=b", "C=d=e"},
		EnvFrom:   []string{"F=${G}"},
		Profile:   []string{".coffer/profile.sh"},
		Command:   []string{"sh", "-c", "a && b > c"},
	}
}

// What is usual must be scanned, or it would be slow and nobody would notice.
func TestScanTakesWhatIsWritten(t *testing.T) {
	small := Record{Version: recordVersion, ID: "tbcdefgh", Name: "x", Created: time.Unix(1, 0).UTC(), Ephemeral: true,
		Workspace: Workspace{Mode: WorkspaceNone}}
	for _, want := range []Record{everything(), small} {
		data, err := want.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, ok := scan(data)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %+v from\n%s", ok, got, data)
		}
	}
}

// What is unusual is left to json, which may take it.
func TestScanLeavesTheRest(t *testing.T) {
	rec := everything()
	data, err := rec.encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"version": 7`, `"version": 01`},
		{`"version": 7`, `"version": -1`},
		{`"version": 7`, `"version": 1.0`},
		{`"version": 7`, `"version": 99999999999999999999`},
		{`"version": 7,`, `"version": 7`},
		{`"version": 7,`, `"version": 7,,`},
		{`"name": "parser"`, `"name": "par\u0073er"`},
		{`"name": "parser"`, "\"name\": \"par\tser\""},
		{`"name": "parser"`, "\"name\": \"par\xffser\""},
		{`"name": "parser"`, `"Name": "parser"`},
		{`"name": "parser"`, `"name":"parser"`},
		{`"name": "parser"`, `"nick": "parser"`},
		{`"once": true`, `"once": false`},
		{`"mode": "direct"`, `"mode": "direct",`},
		{`"C=d=e"`, `"C=d=e",`},
		{`"idle_ns"`, `"cpus"`},
		{`2026-01-02T`, `2026-01-02`},
		{"\n}\n", "\n}\n\n"},
		{"\n}\n", "\n}\n{}"},
		{"\n}\n", "\n"},
		{"{\n  \"version\"", "  \"version\""},
	} {
		text := strings.Replace(string(data), change[0], change[1], 1)
		if text == string(data) {
			t.Fatalf("nothing was changed by %q", change[0])
		}
		if got, ok := scan([]byte(text)); ok {
			t.Errorf("%q for %q was scanned as %+v", change[1], change[0], got)
		}
	}
	for n := range len(data) {
		if _, ok := scan(data[:n]); ok {
			t.Errorf("the first %d bytes were taken for all", n)
		}
	}
}

// Whatever scan takes, json takes for the same.
func FuzzScan(f *testing.F) {
	rec := everything()
	data, err := rec.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("{\n  \"version\": 1\n}\n"))
	f.Add([]byte("{\n  \"workspace\": {\n    \"mode\": \"a\"\n  },\n  \"env\": [\n    \"\"\n  ]\n}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := scan(data)
		if !ok {
			return
		}
		want, err := decodeStrictly(data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("scan: %+v\njson: %+v, %v", got, want, err)
		}
	})
}
