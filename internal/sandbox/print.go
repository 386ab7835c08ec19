package sandbox

import "strconv"

// printed is a record as json would write it, for one with the fields that scan knows and
// no others, and with plain texts. Every run waits for its record, and the first time that
// package json meets a type takes it a third of a millisecond.
func printed(r *Record) (text []byte, ok bool) {
	p := printer{}
	p.open("{")
	p.number("version", int64(r.Version))
	p.text("id", r.ID)
	p.text("name", r.Name)
	created, err := r.Created.MarshalJSON()
	p.bad = p.bad || err != nil
	p.key("created")
	p.out = append(p.out, created...)
	p.truth("ephemeral", r.Ephemeral)
	p.truth("once", r.Once)
	p.key("workspace")
	p.open("{")
	if r.Workspace.Path != "" {
		p.text("path", r.Workspace.Path)
	}
	p.text("mode", r.Workspace.Mode)
	if r.Workspace.Start != "" {
		p.text("start", r.Workspace.Start)
	}
	p.close("}")
	p.limits(r.Limits)
	if n := r.Network; n.Mode != "" {
		p.key("network")
		p.open("{")
		p.text("mode", n.Mode)
		p.close("}")
	}
	p.truth("nesting", r.Nesting)
	p.truth("made_git", r.MadeGit)
	p.list("env", r.Env)
	p.list("env_from", r.EnvFrom)
	p.list("command", r.Command)
	p.list("profile", r.Profile)
	p.close("}")
	return append(p.out, '\n'), !p.bad && !rare(r)
}

// rare says whether a record has a field that is not printed.
func rare(r *Record) bool {
	n, m, g, i := r.Network, r.Masks, r.Git, r.Image
	return r.Limits.CPUs != 0 || n.Rules != nil || n.HostPorts != nil || n.Max != "" || m.Prefix != "" || m.Rules != nil ||
		len(r.Mounts)+len(r.Forwards)+len(r.Sockets)+len(r.Daemons)+len(r.Caches) > 0 || r.Audit ||
		g.Push+g.Upstream+g.GH+g.GHRead+g.Nested != "" || g.Patterns != nil || i.Ref+i.Digest+i.Shell != "" || i.Env != nil
}

func (p *printer) limits(l Limits) {
	if l == (Limits{}) {
		return
	}
	p.key("limits")
	p.open("{")
	for _, n := range []struct {
		key   string
		value int64
	}{{"memory_bytes", l.Memory}, {"pids", int64(l.Pids)}, {"open_files", int64(l.OpenFiles)}, {"timeout_ns", int64(l.Timeout)}, {"idle_ns", int64(l.Idle)}, {"keep_free_bytes", l.KeepFree}} {
		if n.value != 0 {
			p.number(n.key, n.value)
		}
	}
	p.close("}")
}

// printer puts a text together. Once there is something in it that is not plain it is
// bad for good.
type printer struct {
	out    []byte
	indent int
	filled bool // the object or list has something in it
	bad    bool
}

func (p *printer) open(bracket string) {
	p.out = append(p.out, bracket...)
	p.indent++
	p.filled = false
}

func (p *printer) close(bracket string) {
	p.indent--
	p.line()
	p.out = append(p.out, bracket...)
	p.filled = true
}

func (p *printer) line() {
	p.out = append(p.out, '\n')
	for range p.indent {
		p.out = append(p.out, "  "...)
	}
}

// next begins another thing in an object or list.
func (p *printer) next() {
	if p.filled {
		p.out = append(p.out, ',')
	}
	p.line()
	p.filled = true
}

func (p *printer) key(name string) {
	p.next()
	p.quote(name)
	p.out = append(p.out, ": "...)
}

func (p *printer) number(name string, n int64) {
	p.key(name)
	p.out = strconv.AppendInt(p.out, n, 10)
}

func (p *printer) text(name, s string) {
	p.key(name)
	p.quote(s)
}

// truth leaves out what is not true.
func (p *printer) truth(name string, b bool) {
	if b {
		p.key(name)
		p.out = append(p.out, "true"...)
	}
}

// list leaves out an empty one.
func (p *printer) list(name string, list []string) {
	if len(list) == 0 {
		return
	}
	p.key(name)
	p.open("[")
	for _, s := range list {
		p.next()
		p.quote(s)
	}
	p.close("]")
}

func (p *printer) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			p.bad = true
		}
	}
	p.out = append(append(append(p.out, '"'), s...), '"')
}
