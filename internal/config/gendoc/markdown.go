package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"reflect"
	"strings"

	"github.com/cofferhq/coffer/internal/config"
)

//go:embed head.md
var head string

//go:embed targets.md
var targets string

//go:embed floor.md
var floor string

func (c comments) markdown() []byte {
	var b bytes.Buffer
	b.WriteString(head)
	b.WriteString("\n## Keys\n\n")
	c.table(&b, reflect.TypeFor[config.Config](), "", "")
	b.WriteString("\n" + targets + "\n" + floor + "\n")
	c.table(&b, reflect.TypeFor[config.Floor](), "", "policy.toml: ")
	return b.Bytes()
}

// table describes the keys of a table, and then the tables below it.
func (c comments) table(b *bytes.Buffer, t reflect.Type, path, where string) {
	type below struct {
		path string
		kind reflect.Type
	}
	var later []below
	title := "the top of the file"
	if path != "" {
		title = "`" + path + "`"
	}
	fmt.Fprintf(b, "### %s%s\n\n", where, title)
	if doc := c[t.Name()]; doc != "" && path != "" {
		fmt.Fprintf(b, "%s\n\n", doc)
	}
	for _, k := range c.keys(t) {
		if at := tableType(k.kind); at != nil {
			header := "[" + dotted(path, k.name) + "]"
			switch k.kind.Kind() {
			case reflect.Map:
				header = "[" + dotted(path, k.name) + ".NAME]"
			case reflect.Slice:
				header = "[[" + dotted(path, k.name) + "]]"
			}
			later = append(later, below{header, at})
			if k.doc == "" {
				continue
			}
		}
		kind := words(k.kind)
		if k.enum != "" {
			kind = "`\"" + strings.ReplaceAll(k.enum, ",", "\"`, `\"") + "\"`"
			if k.kind.Kind() == reflect.Slice {
				kind = "list of " + kind
			}
		}
		fmt.Fprintf(b, "- `%s` (%s): %s", k.name, kind, k.doc)
		if k.example != "" {
			fmt.Fprintf(b, " Example: `%s = %s`", k.name, k.example)
		}
		b.WriteByte('\n')
	}
	for _, l := range later {
		b.WriteByte('\n')
		c.table(b, l.kind, l.path, where)
	}
}

func dotted(header, name string) string {
	header = strings.Trim(header, "[]")
	if header == "" {
		return name
	}
	return header + "." + name
}
