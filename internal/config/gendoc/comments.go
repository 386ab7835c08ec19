package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// A key is a field of a type that has a name in TOML.
type key struct {
	name, doc, enum, example string
	kind                     reflect.Type
}

// comments are the texts of types, and of their fields, by Type and Type.Field.
type comments map[string]string

func readComments(files ...string) (comments, error) {
	c := comments{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				t := s.(*ast.TypeSpec)
				c[t.Name.Name] = sentence(flow(g.Doc.Text()), t.Name.Name)
				if st, ok := t.Type.(*ast.StructType); ok {
					c.fields(t.Name.Name, st)
				}
			}
		}
	}
	return c, nil
}

func (c comments) fields(of string, st *ast.StructType) {
	for _, f := range st.Fields.List {
		text := f.Doc.Text()
		if text == "" {
			text = f.Comment.Text()
		}
		for _, n := range f.Names {
			c[of+"."+n.Name] = flow(text)
		}
	}
}

// flow joins the lines of a comment.
func flow(s string) string { return strings.Join(strings.Fields(s), " ") }

// keys are those of a struct, with the name in TOML in place of the one in Go.
func (c comments) keys(t reflect.Type) (list []key) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("toml")
		if name == "" || name == "-" {
			continue
		}
		doc := sentence(c[t.Name()+"."+f.Name], f.Name)
		doc = strings.ReplaceAll(doc, "see ParseTarget for how they are written", "see below for how they are written")
		list = append(list, key{name, doc, f.Tag.Get("enum"), f.Tag.Get("example"), f.Type})
	}
	return list
}

// words names a type as the documentation does.
func words(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return words(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.String:
		if t.Name() == "Port" || t.Name() == "Ready" {
			return "number or text"
		}
		return "text"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "list of tables"
		}
		if t.Elem().Name() == "Port" {
			return "list of numbers or texts"
		}
		return "list of texts"
	case reflect.Map:
		if t.Elem().Kind() == reflect.Slice {
			return "table of lists of texts"
		}
		return "table of texts"
	}
	panic(fmt.Sprint("no words for ", t))
}

// sentence turns a comment that begins with a name of Go's into one that does not.
func sentence(doc, name string) string {
	if rest, ok := strings.CutPrefix(doc, name+" "); ok {
		doc = rest
		if word, more, ok := strings.Cut(rest, " "); ok && (word == "is" || word == "are") {
			doc = more
		}
	}
	if doc == "" {
		return ""
	}
	doc = strings.ToUpper(doc[:1]) + doc[1:]
	if !strings.HasSuffix(doc, ".") {
		doc += "."
	}
	return doc
}
