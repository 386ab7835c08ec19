package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The rows of the table about merging in docs/config.md, each with the keys it is about. A
// row without an entry here, or an entry without a row, fails.
var mergeRows = map[string]func(leaf) bool{
	"a single value | the higher file's counts": func(l leaf) bool { return !l.list },
	"a table | key by key":                      func(l leaf) bool { return strings.Contains(l.path, ".") },
	"a list | the higher file's items are added to the lower's, each once": func(l leaf) bool {
		return l.list && !l.named && l.path != "masks" && !l.port()
	},
	"the list `masks` | the higher file's lines come after the lower's, all of them: the last that matches counts":                                func(l leaf) bool { return l.path == "masks" },
	"a port with the same number (inside for `host_ports`, on this machine for `publish`) | the higher file's counts, and a flag's more":          leaf.port,
	"an entry with a name (a mount, a daemon, an agent, the `jail.args` of one, a rule that has a `name`) | key by key; a list in it is replaced": func(l leaf) bool { return l.named },
	"a rule without a `name` | is added": func(l leaf) bool { return strings.HasPrefix(l.path, "network.rules") },
}

// A leaf is a key that has a value of its own, with "x" for names that people give.
type leaf struct {
	path  string
	list  bool
	named bool // it is in an entry with a name
}

func (l leaf) port() bool { return l.path == "network.host_ports" || l.path == "network.publish" }

// leaves lists all keys that the types have.
func leaves(t reflect.Type, path string, named bool) (list []leaf) {
	switch t.Kind() {
	case reflect.Struct:
		for name, f := range keys(t) {
			list = append(list, leaves(f.Type, join(path, name), named)...)
		}
	case reflect.Map:
		named = named || t.Elem().Kind() != reflect.String // of tables or of lists
		return leaves(t.Elem(), join(path, "x"), named)
	case reflect.Pointer:
		return leaves(t.Elem(), path, named)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return leaves(t.Elem(), path, true)
		}
		return []leaf{{path, true, named}}
	default:
		return []leaf{{path, false, named}}
	}
	return list
}

// file writes a key as a file has it, with another one beside it.
func (l leaf) file(value, beside string) string {
	if key, ok := strings.CutPrefix(l.path, "network.rules."); ok {
		if key == "name" {
			return "[[network.rules]]\nname = \"n\"\n" + beside
		}
		return "[[network.rules]]\nname = \"n\"\n" + beside + key + " = " + value + "\n"
	}
	at, key := "", l.path
	if i := strings.LastIndex(l.path, "."); i >= 0 {
		at, key = "["+l.path[:i]+"]\n", l.path[i+1:]
	}
	return at + beside + key + " = " + value + "\n"
}

// found are the values of a merged tree at the key, and of the one beside it.
func (l leaf) found(t *testing.T, n *node) (value, beside string) {
	steps := strings.Split(l.path, ".")
	if strings.HasPrefix(l.path, "network.rules") {
		if rules := n.get("network", "rules"); len(rules.items) != 1 {
			t.Fatalf("%s: there are %d rules", l.path, len(rules.items))
		}
		n, steps = n.get("network", "rules", 0), steps[2:]
	}
	for _, s := range steps[:len(steps)-1] {
		n = n.get(s)
	}
	v := n.get(steps[len(steps)-1])
	if v == nil {
		t.Fatalf("%s: nothing is left of it", l.path)
	}
	if b := n.get("beside"); b != nil {
		beside = b.text()
	}
	return literal(v), beside
}

// Every key of every table is merged as the document says.
func TestMergeTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| what | how it is merged |\n|---|---|\n")
	if !ok {
		t.Fatal("there is no table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	all := leaves(reflect.TypeFor[Config](), "", false)
	if len(all) < 60 {
		t.Fatalf("only %d keys", len(all))
	}
	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		row := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "| "), " |")
		rows[row] = true
		about, ok := mergeRows[row]
		if !ok {
			t.Errorf("nothing proves the row %q", row)
			continue
		}
		if !slices.ContainsFunc(all, about) {
			t.Errorf("the row %q is about no key", row)
		}
	}
	for row := range mergeRows {
		if !rows[row] {
			t.Errorf("the document has no row %q", row)
		}
	}
	for _, l := range all {
		lower, upper, want := `"a"`, `"b"`, `"b"`
		switch {
		case l.path == "network.rules.name":
			lower, upper, want = `"n"`, `"n"`, `"n"`
		case l.path == "masks":
			lower, upper, want = `["a", "!b"]`, `["!b", "a"]`, `["a", "!b", "!b", "a"]`
		case l.port():
			lower, upper, want = `[1, 2, "3:4", ":9"]`, `["2", "1:5", "3:6", 8, ":9"]`, `["1:5", 2, "3:6", ":9", 8]`
		case l.list && l.named:
			lower, upper, want = `["a", "b"]`, `["b", "c"]`, `["b", "c"]`
		case l.list:
			lower, upper, want = `["a", "b"]`, `["b", "c"]`, `["a", "b", "c"]`
		}
		low, problems := parse("lower", []byte(l.file(lower, "beside = \"low\"\n")), &map[string]any{})
		high, more := parse("upper", []byte(l.file(upper, "")), &map[string]any{})
		if len(problems)+len(more) > 0 {
			t.Fatal(l.path, problems, more)
		}
		got, beside := l.found(t, merge(low, high))
		if got != want || beside != "low" {
			t.Errorf("%s: %s under %s is %s, want %s; beside it is %q", l.path, lower, upper, got, want, beside)
		}
	}
	low, _ := parse("lower", []byte("[[network.rules]]\nallow = [\"a\"]\n"), &map[string]any{})
	if got := literals(merge(low, low).get("network", "rules")); got != "allow = [\"a\"]; allow = [\"a\"]" {
		t.Errorf("rules without a name: %s", got)
	}
}

// literals are rules in one line.
func literals(rules *node) string {
	var list []string
	for _, r := range rules.items {
		for _, name := range r.names() {
			list = append(list, fmt.Sprintf("%s = %s", name, literal(r.get(name))))
		}
	}
	return strings.Join(list, "; ")
}

// Everything that has a name can be switched off from above, by its kind.
func TestSwitchedOff(t *testing.T) {
	w := newWorld(t)
	w.write("data/x", "")
	w.write(w.User, `
[mounts.m]
source = "~/repo/data"
target = "/m"
[daemons.d]
command = ["true"]
[agents.mine]
command = "mine"
[[network.rules]]
name = "r"
allow = ["example.com"]
`)
	count := func() [4]int {
		l := w.load()
		mounts, err := l.Mounts(func(string) {}, true)
		if err != nil {
			t.Fatal(err)
		}
		daemons, err := l.Daemons()
		if err != nil {
			t.Fatal(err)
		}
		rules := 0
		for _, r := range l.Config.Network.Rules {
			if r.Enabled == nil || *r.Enabled {
				rules++
			}
		}
		return [4]int{len(mounts), len(daemons), len(l.Known()), rules}
	}
	was := count()
	w.write("coffer.toml", "mounts.m.enabled = false\ndaemons.d.enabled = false\nagents.mine.enabled = false\nagents.claude.enabled = false\n[[network.rules]]\nname = \"r\"\nenabled = false\n")
	is := count()
	if want := [4]int{was[0] - 1, was[1] - 1, was[2] - 2, was[3] - 1}; is != want || want[0] != 0 {
		t.Errorf("there were %v, and are %v", was, is)
	}
	w.write("coffer.local.toml", "mounts.m.enabled = true\ndaemons.d.enabled = true\nagents.mine.enabled = true\nagents.claude.enabled = true\n[[network.rules]]\nname = \"r\"\nenabled = true\n")
	if got := count(); got != was {
		t.Errorf("switched on again there are %v, not %v", got, was)
	}
}
