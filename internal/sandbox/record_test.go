package sandbox

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
)

func fullRecord() Record {
	return Record{
		Version: recordVersion, ID: "tb3defgh", Name: "calm-otter", Ephemeral: true,
		Created:       time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
		Workspace:     Workspace{Path: "/home/me/src & more", Mode: WorkspaceDirect, Start: "a/b"},
		Limits:        Limits{Memory: 1 << 30, Pids: 100, CPUs: 1.5, OpenFiles: 1024, Timeout: time.Hour, Idle: time.Minute},
		Network:       Network{Mode: "standard", Rules: []policy.Source{{Default: "deny"}}, HostPorts: []HostPort{{Inside: 5432, Outside: 15432}}, Max: "standard"},
		Masks:         Masks{Prefix: "sub", Rules: []Mask{{Line: "*.key", From: ".sandboxignore:1", Dir: "sub", Own: true}}},
		Mounts:        []Mount{{Source: "/srv/data", Target: "/data", ReadOnly: true}, {Source: "/srv/out", Target: "/out"}},
		Once:          true,
		Nesting:       true,
		AllowSettings: true,
		MadeGit:       true,
		Env:           []string{"A=b", "EMPTY=", "PASSED"},
		EnvFrom:       []string{"C=<${D}>"},
		Command:       []string{"sh", "-c", "a && b > c"},
		Forwards:      []Forward{{Host: 8080, Inside: 80}, {Inside: 3000, Any: true}},
		Sockets:       []Socket{{Way: SocketIn, Host: "/run/agent", Inside: "/run/agent"}, {Way: SocketOut, Host: "/run/db", Inside: "/run/db"}},
		Profile:       []string{".coffer/profile.sh"},
		Daemons:       []Daemon{{Name: "db", Command: []string{"redis-server"}, Dir: "x", Env: []string{"A=b"}, Restart: RestartAlways, Signal: "INT", Grace: 1, ReadyPort: 80, ReadyCommand: "true", ReadyTimeout: 1}},
		Caches:        []Cache{{Name: "npm", Source: "/home/me/.npm/_cacache", Target: "/home/me/.npm/_cacache"}},
		Audit:         true,
		Git:           Git{Push: "deny", Patterns: []string{"feature/*"}},
		Image:         Image{Ref: "debian:12", Digest: "sha256:12", Env: []string{"A=b"}, Shell: "/bin/sh"},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	want := fullRecord()
	data, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeRecord(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for i := range reflect.TypeFor[Record]().NumField() {
		if reflect.ValueOf(want).Field(i).IsZero() {
			t.Errorf("field %s is not covered", reflect.TypeFor[Record]().Field(i).Name)
		}
	}
}

func TestDecodeRecord(t *testing.T) {
	rec := fullRecord()
	data, err := rec.encode()
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	with := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in the record", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	tests := map[string]struct{ in, want string }{
		"empty":            {"", "is empty"},
		"zeros":            {strings.Repeat("\x00", 512), "is damaged"},
		"null":             {"null", "no valid version"},
		"no version":       {"{}", "no valid version"},
		"old version":      {with(`"version": 7`, `"version": 0`), "no valid version"},
		"newer":            {with(`"version": 7`, `"version": 8, "wall": "moat"`), "made by a newer coffer"},
		"unknown field":    {with(`"nesting"`, `"nestling"`), "unknown field"},
		"wrong type":       {with(`"pids": 100`, `"pids": "100"`), "is damaged"},
		"more follows":     {good + "{}", "after top-level value"},
		"garbage follows":  {good + "x", "is damaged"},
		"half":             {good[:len(good)/2], "is damaged"},
		"path for an id":   {with(`"tb3defgh"`, `"../../etc"`), "not a sandbox id"},
		"bad name":         {with(`"calm-otter"`, `"a/b"`), "bad sandbox name"},
		"bad mode":         {with(`"direct"`, `"full"`), "none of direct, cow, none"},
		"relative":         {with(`"/home/me/src`, `"home/me/src`), "not an absolute path"},
		"path for nothing": {with(`"direct"`, `"none"`), "goes without a path"},
		"negative":         {with(`"pids": 100`, `"pids": -1`), "cannot be negative"},
		"bad env":          {with(`"A=b"`, `"=b"`), "must be NAME=value"},
		"no port":          {with(`"inside": 80`, `"inside": 0`), "a forward leads to a port"},
		"no host port":     {with(`"host": 8080`, `"host": 0`), "a forward needs a port"},
		"too high":         {with(`"host": 8080`, `"host": 65536`), "is damaged"},
		"bad way":          {with(`"way": "in"`, `"way": "through"`), "none of in, out"},
		"relative socket":  {with(`"inside": "/run/agent"`, `"inside": "run/agent"`), "not a clean absolute path"},
		"socket with dots": {with(`"inside": "/run/agent"`, `"inside": "/tmp/../run/agent"`), "not a clean absolute path"},
		"became ephemeral": {with(`"tb3defgh"`, `"ab3defgh"`), "cannot become a throw-away"},
		"large":            {good + strings.Repeat(" ", maxRecord), "is larger than"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decodeRecord([]byte(test.in))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	old := `{"version":1,"id":"abcdefgh","name":"x","created":"2026-01-01T00:00:00Z","workspace":{"mode":"none"}}`
	if rec, err := decodeRecord([]byte(old)); err != nil || rec.Name != "x" {
		t.Errorf("a record of version 1: %+v, %v", rec, err)
	}
	for cut := range len(data) - 1 { // all but the last newline
		if _, err := decodeRecord(data[:cut]); err == nil {
			t.Fatalf("the first %d of %d bytes were taken for a record", cut, len(data))
		}
	}
	if _, err := decodeRecord([]byte(with(`"version": 7`, `"version": 8`))); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v, want ErrNewer", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	tests := map[string]func(*Record){
		"not a number":    func(r *Record) { r.Limits.CPUs = math.NaN() },
		"infinite":        func(r *Record) { r.Limits.CPUs = math.Inf(1) },
		"lossy workspace": func(r *Record) { r.Workspace.Path = "/a\xff" },
		"lossy env":       func(r *Record) { r.Env = []string{"A=\xff"} },
		"nul in env":      func(r *Record) { r.Env = []string{"A=\x00"} },
		"long socket":     func(r *Record) { r.Sockets[0].Host = "/" + strings.Repeat("x", 200) },
		"same port twice": func(r *Record) { r.Forwards = []Forward{{Host: 1, Inside: 2}, {Host: 1, Inside: 3}} },
		"same socket":     func(r *Record) { r.Sockets[1] = r.Sockets[0] },
		"many forwards":   func(r *Record) { r.Forwards = make([]Forward, MaxForwards+1) },
		"many sockets":    func(r *Record) { r.Sockets = make([]Socket, MaxSockets+1) },
		"too large":       func(r *Record) { r.Command = []string{strings.Repeat("x", maxRecord)} },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			rec := fullRecord()
			spoil(&rec)
			if _, err := rec.encode(); err == nil {
				t.Error("no error")
			}
		})
	}
	rec := fullRecord()
	rec.Env = []string{"TOKEN=hunter2\xff"}
	if _, err := rec.encode(); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error tells the value: %v", err)
	}
}

// What decodes is valid, and is written as something that decodes to the same.
func FuzzDecodeRecord(f *testing.F) {
	rec := fullRecord()
	data, err := rec.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"id":"abcdefgh","name":"x","created":"2026-01-01T00:00:00+02:00","workspace":{"mode":"none"}}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":4}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		rec, err := decodeRecord(in)
		if err != nil {
			return
		}
		once, err := rec.encode()
		if err != nil {
			// Escapes can make a record at the limit larger.
			if len(in) < maxRecord/8 {
				t.Fatalf("decoded but cannot be encoded: %v", err)
			}
			return
		}
		again, err := decodeRecord(once)
		if err != nil {
			t.Fatalf("our own encoding: %v\n%s", err, once)
		}
		twice, err := again.encode()
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v\n%s\n%s", err, once, twice)
		}
	})
}
