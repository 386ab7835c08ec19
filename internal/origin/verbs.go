package origin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/ui"
)

// A kind is what values an option takes.
type kind int

const (
	none   kind = iota // the option is all
	text               // lines
	line               // one of them
	branch             // the name of a branch
	count              // how many
	number             // of a job or an attempt
	people             // logins, @me, and teams as org/team, with commas between
	labels             // with commas between
	fields             // of JSON
	commit             // its name
	event              // names of events and files of workflows
)

// A flag is an option of gh's.
type flag struct {
	name  string
	short byte
	kind  kind
	words []string // if not nil, the value is one of these, whatever its kind
}

// A verb is something that gh can be asked to do.
type verb struct {
	group, name string
	writes      bool // it changes something that others see
	number      bool // it can be about the one with a number
	needs       bool // it has to
	flags       []flag
}

// verbs is all there is.
func verbs() []verb {
	json := flag{"json", 0, fields, nil}
	limit := flag{"limit", 'L', count, nil}
	state := flag{"state", 's', line, []string{"open", "closed", "all"}}
	label, author, assignee := flag{"label", 'l', labels, nil}, flag{"author", 'A', people, nil}, flag{"assignee", 'a', people, nil}
	title, body, base := flag{"title", 't', line, nil}, flag{"body", 'b', text, nil}, flag{"base", 'B', branch, nil}
	milestone := flag{"milestone", 'm', line, nil}
	merged := state
	merged.words = []string{"open", "closed", "merged", "all"}
	return []verb{
		{"pr", "view", false, true, false, []flag{{"comments", 'c', none, nil}, json}},
		{"pr", "list", false, false, false, []flag{merged, limit, label, author, assignee, base, {"head", 'H', branch, nil}, {"draft", 'd', none, nil}, json}},
		{"pr", "diff", false, true, false, []flag{{"name-only", 0, none, nil}, {"patch", 0, none, nil}}},
		{"pr", "status", false, false, false, []flag{{"conflict-status", 'c', none, nil}, json}},
		{"pr", "checks", false, true, false, []flag{{"required", 0, none, nil}, json}},
		{"pr", "create", true, false, false, []flag{title, body, base, {"head", 'H', branch, nil}, {"draft", 'd', none, nil}, {"reviewer", 'r', people, nil},
			label, assignee, milestone, {"no-maintainer-edit", 0, none, nil}}},
		{"pr", "edit", true, true, false, []flag{title, body, base, {"add-label", 0, labels, nil}, {"remove-label", 0, labels, nil}, {"add-reviewer", 0, people, nil},
			{"remove-reviewer", 0, people, nil}, {"add-assignee", 0, people, nil}, {"remove-assignee", 0, people, nil}, milestone, {"remove-milestone", 0, none, nil}}},
		{"pr", "comment", true, true, false, []flag{body}},
		{"run", "view", false, true, true, []flag{{"job", 'j', number, nil}, {"attempt", 'a', number, nil}, {"log", 0, none, nil}, {"log-failed", 0, none, nil},
			{"verbose", 'v', none, nil}, {"exit-status", 0, none, nil}, json}},
		{"run", "list", false, false, false, []flag{{"branch", 'b', branch, nil}, limit, {"status", 's', line, []string{"queued", "completed", "in_progress", "requested",
			"waiting", "pending", "action_required", "cancelled", "failure", "neutral", "skipped", "stale", "startup_failure", "success", "timed_out"}},
			{"workflow", 'w', event, nil}, {"event", 'e', event, nil}, {"user", 'u', people, nil}, {"commit", 'c', commit, nil}, {"all", 'a', none, nil}, json}},
		{"issue", "view", false, true, true, []flag{{"comments", 'c', none, nil}, json}},
		{"issue", "list", false, false, false, []flag{state, limit, label, author, assignee, milestone, {"mention", 0, people, nil}, json}},
	}
}

// Verbs lists the verbs of a group for people: "view|list".
func Verbs(group string) string {
	var names []string
	for _, v := range verbs() {
		if v.group == group {
			names = append(names, v.name)
		}
	}
	return strings.Join(names, "|")
}

func find(group, name string) (verb, error) {
	for _, v := range verbs() {
		if v.group == group && v.name == name {
			return v, nil
		}
	}
	return verb{}, fmt.Errorf("gh %s is not among what a sandbox can do", ui.Clip(group+" "+name, 60))
}

func (v verb) flag(name string) (flag, bool) {
	i := slices.IndexFunc(v.flags, func(f flag) bool { return f.name == name })
	if i < 0 {
		return flag{}, false
	}
	return v.flags[i], true
}

// Bounds of one request.
const (
	MaxRequest = 512 << 10
	maxText    = 64 << 10
	maxLine    = 256
	maxFlags   = 40
	maxNumber  = 18
	maxCount   = 1000
)

var errKind = errors.New("is not a value for it")

func (f flag) check(value string) error {
	good := true
	if f.kind != text && len(value) > maxLine || len(value) > maxText {
		return errors.New("is too long")
	}
	switch f.kind {
	case none:
		good = value == ""
	case text:
		good = isText(value, "\n\r\t")
	case line:
		good = isText(value, "")
	case branch:
		good = git.ValidRef("refs/heads/" + value)
	case count:
		n, err := strconv.Atoi(value)
		good = isNumber(value) && err == nil && n <= maxCount
	case number:
		good = isNumber(value)
	case people:
		good = each(value, isPerson)
	case labels: // quotes and what quotes them would end a word of the search that gh makes of it
		good = each(value, func(s string) bool { return s != "" && isText(s, "") && !strings.ContainsAny(s, "\"\\`") })
	case fields:
		good = each(value, func(s string) bool { return s != "" && strings.Trim(s, letters) == "" })
	case commit:
		good = len(value) >= 4 && len(value) <= 64 && strings.Trim(value, "0123456789abcdef") == ""
	case event:
		good = value != "" && strings.Trim(value, letters+digits+"_-. ") == "" && value[0] != '-'
	}
	if good && f.words != nil {
		if good = slices.Contains(f.words, value); !good {
			return fmt.Errorf("is none of %s", strings.Join(f.words, ", "))
		}
	}
	if !good {
		return errKind
	}
	return nil
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func each(list string, good func(string) bool) bool {
	return !slices.ContainsFunc(strings.Split(list, ","), func(s string) bool { return !good(s) })
}

// isText says whether there is nothing in it but what can be read, and these.
func isText(s, controls string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < ' ' || r >= 0x7f && r <= 0x9f) && !strings.ContainsRune(controls, r)
	})
}

// isNumber is for numbers that gh takes for nothing else.
func isNumber(s string) bool {
	return s != "" && len(s) <= maxNumber && s[0] != '0' && strings.Trim(s, digits) == ""
}

func isPerson(s string) bool {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "@"), "[bot]")
	org, team, ok := strings.Cut(s, "/")
	isWord := func(s string) bool { return s != "" && s[0] != '-' && strings.Trim(s, letters+digits+"-_") == "" }
	return isWord(org) && (!ok || isWord(team))
}
