package audit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFilter(t *testing.T) {
	dir := t.TempDir()
	l, err := small.Open(dir)
	must(t, err)
	at := func(m int) time.Time { return time.Date(2026, 1, 1, 12, m, 0, 0, time.UTC) }
	events := []Event{
		{Time: at(0), Kind: KindStart, Detail: "0"},
		{Time: at(1), Kind: KindFlow, Host: "example.com", Verdict: "allow", Detail: "1"},
		{Time: at(2), Kind: KindFlow, Host: "api.example.com", Verdict: "deny", Detail: "2"},
		{Time: at(3), Kind: KindFlow, Addr: netip.MustParseAddr("192.0.2.1"), Verdict: "deny", Detail: "3"},
		{Time: at(4), Kind: KindDNS, Host: "badexample.com", Verdict: "deny", Detail: "4"},
		{Time: at(0), Kind: KindExec, Command: []string{`,"duration":0`}, Duration: 4*time.Minute + time.Second, Detail: "5"},
		{Time: at(5), Kind: KindStop, Detail: "6"},
	}
	for _, e := range events {
		l.Add(e)
	}
	must(t, l.Close())
	tests := map[string]struct {
		filter Filter
		want   string
	}{
		"all":         {Filter{}, "0123456"},
		"since":       {Filter{Since: at(4)}, "456"},
		"since later": {Filter{Since: at(5)}, "6"},
		"until":       {Filter{Until: at(4)}, "01235"},
		"kind":        {Filter{Kinds: []string{KindDNS}}, "4"},
		"kinds":       {Filter{Kinds: []string{KindDNS, KindStop}}, "46"},
		"host":        {Filter{Host: "Example.com"}, "1"},
		"hosts below": {Filter{Host: "*.example.com"}, "2"},
		"address":     {Filter{Host: "192.0.2.1"}, "3"},
		"verdict":     {Filter{Verdict: "deny"}, "234"},
		"several":     {Filter{Verdict: "deny", Kinds: []string{KindFlow}, Since: at(3)}, "3"},
		"limit":       {Filter{Limit: 2}, "56"},
		"limit of 1":  {Filter{Limit: 1, Kinds: []string{KindFlow}}, "3"},
		"more":        {Filter{Limit: 100}, "0123456"},
		"exactly":     {Filter{Limit: 7}, "0123456"},
		"limited":     {Filter{Limit: 4}, "3456"},
		"none":        {Filter{Host: "example.net"}, ""},
	}
	for name, test := range tests {
		got := ""
		must(t, Read(dir, test.filter, func(r Record) error {
			if !strings.Contains(string(r.Line()), fmt.Sprintf(`"detail":%q`, r.Detail)) {
				t.Errorf("%s: line %s", name, r.Line())
			}
			if r.Kind != KindRotated {
				got += r.Detail
			}
			return nil
		}))
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	stop := errors.New("stop")
	for _, f := range []Filter{{}, {Limit: 3}} {
		n := 0
		if err := Read(dir, f, func(Record) error { n++; return stop }); err != stop || n != 1 {
			t.Errorf("%v after %d records", err, n)
		}
	}
}

// What can be read is read, and then it is said that something cannot.
func TestReadDamaged(t *testing.T) {
	whole := sealed(t)
	for name, test := range map[string]struct {
		change func(snapshot)
		want   []string
	}{
		"garbage":  {edit(file1, func(l []string) []string { l[1] = "garbage\n"; return l }), slices.Delete(numbered(0, 9), 1, 2)},
		"changed":  {edit(file1, func(l []string) []string { l[1] = strings.Replace(l[1], "host-1", "host-x", 1); return l }), slices.Replace(numbered(0, 9), 1, 2, "host-x")},
		"long":     {edit(file1, func(l []string) []string { l[1] = strings.Repeat("x", 2*maxLine) + "\n"; return l }), slices.Delete(numbered(0, 9), 1, 2)},
		"cut file": {func(s snapshot) { s[file1] = s[file1][:len(s[file1])-1] }, slices.Delete(numbered(0, 9), 2, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := snapshot{}
			for k, v := range whole {
				s[k] = v
			}
			test.change(s)
			s.put(t, dir)
			var got []string
			err := Read(dir, Filter{Kinds: []string{KindFlow}}, func(r Record) error { got = append(got, r.Host); return nil })
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("error %v", err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// A follower that starts before there is a log sees everything, once and in order, also
// over rotations and sessions.
func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("ended")
	var got []string
	first := make(chan struct{})
	result := make(chan error)
	go func() {
		result <- Follow(ctx, dir, Filter{Kinds: []string{KindFlow}}, func(r Record) error {
			if got = append(got, r.Host); len(got) == 1 {
				close(first)
			}
			return nil
		})
	}()
	o := small
	o.Files = 1000
	write(t, o, dir, 0, 1)
	<-first
	for i := range 10 {
		write(t, o, dir, 1+10*i, 10)
	}
	cancel(ended) // what was written before is read before it ends
	if err := <-result; err == nil || !errors.Is(err, ended) {
		t.Errorf("follow: %v", err)
	}
	if want := numbered(0, 101); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// With a limit it starts with the last ones.
func TestFollowLimit(t *testing.T) {
	dir := t.TempDir()
	write(t, small, dir, 0, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	err := Follow(ctx, dir, Filter{Kinds: []string{KindFlow}, Limit: 2}, func(r Record) error {
		got = append(got, r.Host)
		switch len(got) {
		case 2:
			write(t, small, dir, 10, 3)
		case 5:
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || !reflect.DeepEqual(got, numbered(8, 13)) {
		t.Errorf("%v, %v", got, err)
	}
}

// A line that is being written is not read before it is finished.
func TestFollowUnfinished(t *testing.T) {
	dir := t.TempDir()
	whole := sealed(t)
	text := whole[file1]
	half := strings.IndexByte(text, '\n') + 30
	must(t, os.WriteFile(filepath.Join(dir, file1), []byte(text[:half]), 0o600))
	enough := errors.New("enough")
	var got []string
	err := Follow(t.Context(), dir, Filter{Kinds: []string{KindFlow}}, func(r Record) error {
		if got = append(got, r.Host); len(got) == 1 {
			must(t, os.WriteFile(filepath.Join(dir, file1), []byte(text), 0o600))
		}
		if len(got) == 3 {
			return enough
		}
		return nil
	})
	if err != enough || !reflect.DeepEqual(got, numbered(0, 3)) {
		t.Errorf("%v, %v", got, err)
	}
}
