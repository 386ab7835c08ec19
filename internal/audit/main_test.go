package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary is also the other processes that tests need.
const childEnv = "COFFER_AUDIT_TEST_CHILD"

// children are their roles; files with a build tag add theirs.
var children = map[string]func(dir string) error{}

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := children[role](os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fast is a pace at which nothing is waited for and nothing is summarised.
var fast = pace{
	tick:  time.Hour,
	burst: 1 << 40, rate: 1, queue: 1 << 30,
}

// small is a log that rotates after a few events.
var small = Options{FileSize: 2000, Files: 3, Throwaway: true, pace: fast}

var flow = Event{
	Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Kind: KindFlow, Host: "example.com", Port: 443,
	Protocol: "tls", Verdict: "allow", Rule: "example", Sent: 12, Received: 3456, Duration: time.Second, Close: "eof",
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write opens a log, adds n flows to numbered hosts, and closes it.
func write(t testing.TB, o Options, dir string, from, n int) {
	t.Helper()
	l, err := o.Open(dir)
	must(t, err)
	for i := range n {
		e := flow
		e.Host = fmt.Sprintf("host-%d", from+i)
		l.Add(e)
	}
	must(t, l.Close())
}

// hosts reads the hosts of all flows.
func hosts(t testing.TB, dir string) (all []string) {
	t.Helper()
	must(t, Read(dir, Filter{Kinds: []string{KindFlow}}, func(r Record) error {
		all = append(all, r.Host)
		return nil
	}))
	return all
}

// numbered is host-from to host-(to-1).
func numbered(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("host-%d", i))
	}
	return all
}

func records(t testing.TB, dir string, kind string) (all []Record) {
	t.Helper()
	must(t, Read(dir, Filter{Kinds: []string{kind}}, func(r Record) error {
		all = append(all, r)
		return nil
	}))
	return all
}

// verified is Verify of a log that must be in order.
func verified(t testing.TB, dir string) Summary {
	t.Helper()
	s, err := Verify(dir)
	must(t, err)
	for _, p := range s.Problems {
		t.Errorf("problem: %s", p)
	}
	return s
}

// snapshot is all files of a log but the lock.
type snapshot map[string]string

func take(t testing.TB, dir string) snapshot {
	t.Helper()
	s := snapshot{}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		s[e.Name()] = string(b)
	}
	return s
}

// put writes the files to a new directory.
func (s snapshot) put(t testing.TB, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	for name, text := range s {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// contains says whether one of the problems has the text in it.
func contains(problems []string, text string) bool {
	return strings.Contains(strings.Join(problems, "\n"), text)
}
