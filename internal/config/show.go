package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Show writes the merged config as TOML, sorted. With origin, each value has a line with where it
// was set, and a list one for each file that adds to it; that text is for people only.
func (l *Loaded) Show(origin bool) string {
	p := printer{origin: origin}
	if !origin {
		p.table(l.tree, "")
		return p.String()
	}
	p.flat(l.tree, "")
	return p.String()
}

// Show is what the administrator's floor says, as comments below the config that it
// holds down.
func (f *Floor) Show() string {
	if f == nil {
		return ""
	}
	p := printer{origin: true}
	p.flat(f.tree, "")
	var b strings.Builder
	b.WriteString("\n# The administrator's floor, which counts more:\n")
	for line := range strings.Lines(p.String()) {
		b.WriteString("# floor: " + line)
	}
	return b.String()
}

type printer struct {
	strings.Builder
	origin bool
}

func (p *printer) line(path string, n *node) {
	fmt.Fprintf(p, "%s = %s", path, literal(n))
	if p.origin {
		fmt.Fprintf(p, "  # %s", printable(n.at.Origin()))
	}
	p.WriteByte('\n')
}

// flat writes dotted keys.
func (p *printer) flat(n *node, path string) {
	switch {
	case n.isTable():
		for _, name := range n.names() {
			p.flat(n.fields[name], join(path, name))
		}
	case n.isListOfTables():
		for i, item := range n.items {
			p.flat(item, fmt.Sprintf("%s[%d]", path, i))
		}
	case n.isList():
		p.list(n, path)
	default:
		p.line(path, n)
	}
}

// list groups items by where they come from.
func (p *printer) list(n *node, path string) {
	for i := 0; i < len(n.items); {
		part := &node{at: n.items[i].at}
		for ; i < len(n.items) && n.items[i].at.Origin() == part.at.Origin(); i++ {
			part.items = append(part.items, n.items[i])
		}
		p.line(path, part)
	}
	if len(n.items) == 0 {
		p.line(path, n)
	}
}

// table writes TOML as people do: values, then tables.
func (p *printer) table(n *node, path string) {
	var later []string
	for _, name := range n.names() {
		f := n.fields[name]
		if f.isTable() || f.isListOfTables() {
			later = append(later, name)
			continue
		}
		p.line(join("", name), f)
	}
	for _, name := range later {
		f, below := n.fields[name], join(path, name)
		if f.isTable() {
			fmt.Fprintf(p, "\n[%s]\n", below)
			p.table(f, below)
			continue
		}
		for _, item := range f.items {
			fmt.Fprintf(p, "\n[[%s]]\n", below)
			p.table(item, below)
		}
	}
}

// literal is a value as TOML writes it.
func literal(n *node) string {
	switch v := n.value.(type) {
	case string:
		return tomlString(v)
	case float64:
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	case nil:
		var items []string
		for _, i := range n.items {
			items = append(items, literal(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(n.value)
}

// printable is for names of files, which anybody may have given.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// tomlString quotes text. What a terminal would act on is written as its number.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
