package sandbox

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// scan reads a record in the very form in which encode writes it. Every exec waits for
// its record, and the first use of package json in a process takes a tenth of a
// millisecond; this takes none. Whatever looks different, by another hand or with a
// field that is rare, is not ok, and left to json: see decodeRecord.
func scan(data []byte) (rec Record, ok bool) {
	if !utf8.Valid(data) {
		return rec, false // json would replace what is not
	}
	s := scanner{rest: string(data)}
	s.object("  ", func(key string) {
		switch key {
		case "version":
			rec.Version = int(s.number())
		case "id":
			rec.ID = s.text()
		case "name":
			rec.Name = s.text()
		case "created":
			if err := rec.Created.UnmarshalJSON([]byte(`"` + s.text() + `"`)); err != nil {
				s.bad = true
			}
		case "ephemeral":
			rec.Ephemeral = s.truth()
		case "once":
			rec.Once = s.truth()
		case "workspace":
			s.object("    ", func(key string) { s.workspace(&rec.Workspace, key) })
		case "limits":
			s.object("    ", func(key string) { s.limits(&rec.Limits, key) })
		case "network":
			s.object("    ", func(key string) { s.network(&rec.Network, key) })
		case "nesting":
			rec.Nesting = s.truth()
		case "made_git":
			rec.MadeGit = s.truth()
		case "env":
			rec.Env = s.list("    ")
		case "env_from":
			rec.EnvFrom = s.list("    ")
		case "command":
			rec.Command = s.list("    ")
		case "profile":
			rec.Profile = s.list("    ")
		default:
			s.bad = true
		}
	})
	s.must("\n")
	return rec, !s.bad && s.rest == ""
}

func (s *scanner) workspace(w *Workspace, key string) {
	switch key {
	case "path":
		w.Path = s.text()
	case "mode":
		w.Mode = s.text()
	case "start":
		w.Start = s.text()
	default:
		s.bad = true
	}
}

func (s *scanner) limits(l *Limits, key string) {
	switch key {
	case "memory_bytes":
		l.Memory = s.number()
	case "pids":
		l.Pids = int(s.number())
	case "open_files":
		l.OpenFiles = int(s.number())
	case "timeout_ns":
		l.Timeout = time.Duration(s.number())
	case "idle_ns":
		l.Idle = time.Duration(s.number())
	case "keep_free_bytes":
		l.KeepFree = s.number()
	default:
		s.bad = true
	}
}

// network knows the mode alone, which is all that most records have.
func (s *scanner) network(n *Network, key string) {
	if key != "mode" {
		s.bad = true
		return
	}
	n.Mode = s.text()
}

// scanner takes a text apart from the left. Once something is not as expected it is bad
// for good.
type scanner struct {
	rest string
	bad  bool
}

func (s *scanner) take(prefix string) bool {
	rest, ok := strings.CutPrefix(s.rest, prefix)
	s.rest = rest
	return ok
}

func (s *scanner) must(prefix string) {
	if !s.take(prefix) {
		s.bad = true
	}
}

// object calls field for each key, with the value next.
func (s *scanner) object(indent string, field func(key string)) {
	s.must("{\n")
	for !s.bad {
		s.must(indent)
		key := s.text()
		s.must(": ")
		if !s.bad {
			field(key)
		}
		if !s.take(",\n") {
			break
		}
	}
	s.must("\n" + indent[2:] + "}")
}

func (s *scanner) list(indent string) (all []string) {
	s.must("[\n")
	for !s.bad {
		s.must(indent)
		all = append(all, s.text())
		if !s.take(",\n") {
			break
		}
	}
	s.must("\n" + indent[2:] + "]")
	return all
}

// text is a string with nothing escaped in it.
func (s *scanner) text() string {
	s.must(`"`)
	i := strings.IndexByte(s.rest, '"')
	if s.bad || i < 0 {
		s.bad = true
		return ""
	}
	text := s.rest[:i]
	s.rest = s.rest[i+1:]
	for j := range len(text) {
		if text[j] == '\\' || text[j] < ' ' {
			s.bad = true
		}
	}
	return text
}

// number is one without sign or fraction, and small enough for every field.
func (s *scanner) number() int64 {
	i := 0
	for i < len(s.rest) && '0' <= s.rest[i] && s.rest[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(s.rest[:i], 10, 64)
	if err != nil || i > 1 && s.rest[0] == '0' || int64(int(n)) != n {
		s.bad = true
	}
	s.rest = s.rest[i:]
	return n
}

// truth is the one truth value that is ever written.
func (s *scanner) truth() bool {
	s.must("true")
	return true
}
