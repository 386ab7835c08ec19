package config

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
)

// decode fills a value from a node and notes everything that does not fit: keys that
// nobody knows, wrong types, words that are none of the choices.
func (p *Problems) decode(n *node, v reflect.Value, path, enum string) {
	switch v.Kind() {
	case reflect.Struct:
		if p.want(n, table, path) {
			p.decodeStruct(n, v, path)
		}
	case reflect.Map:
		if !p.want(n, table, path) {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for _, name := range n.order {
			item := reflect.New(v.Type().Elem()).Elem()
			p.decode(n.fields[name], item, join(path, name), "")
			v.SetMapIndex(reflect.ValueOf(name), item)
		}
	case reflect.Slice:
		if !p.want(n, list, path) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
		for i, item := range n.items {
			p.decode(item, v.Index(i), path, enum)
		}
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		p.decode(n, to.Elem(), path, enum)
		v.Set(to)
	default:
		p.decodeScalar(n, v, path, enum)
	}
}

func (p *Problems) decodeScalar(n *node, v reflect.Value, path, enum string) {
	switch v.Kind() {
	case reflect.String:
		if (v.Type() == reflect.TypeFor[Port]() || v.Type() == reflect.TypeFor[Ready]()) && n.kind == whole {
			v.SetString(strconv.FormatInt(n.whole, 10))
			return
		}
		if !p.want(n, text, path) {
			return
		}
		v.SetString(n.text)
		if choices := strings.Split(enum, ","); enum != "" && !slices.Contains(choices, n.text) {
			p.add(n.at, "%s cannot be %s: want %s", path, quote(n.text), oneOf(choices, n.text))
		}
	case reflect.Bool:
		if p.want(n, truth, path) {
			v.SetBool(n.truth)
		}
	case reflect.Int:
		if !p.want(n, whole, path) {
			return
		}
		if n.whole < 0 || n.whole > math.MaxInt32 {
			p.add(n.at, "%s cannot be %d", path, n.whole)
			return
		}
		v.SetInt(n.whole)
	case reflect.Float64:
		f := n.number
		if n.kind == whole {
			f = float64(n.whole)
		} else if !p.want(n, number, path) {
			return
		}
		if !(f >= 0 && f <= math.MaxInt32) {
			p.add(n.at, "%s cannot be %v", path, f)
			return
		}
		v.SetFloat(f)
	default:
		panic("config: no way to decode " + v.Type().String()) // a type of ours
	}
}

// want notes a wrong type.
func (p *Problems) want(n *node, k kind, path string) bool {
	if n.kind == k {
		return true
	}
	p.add(n.at, "%s must be %s, not %s", path, k, n.kind)
	return false
}

func (p *Problems) decodeStruct(n *node, v reflect.Value, path string) {
	fields := keys(v.Type())
	for _, name := range n.order {
		child := n.fields[name]
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i >= 0 {
			p.decode(child, v.Field(fields[i].index), join(path, name), fields[i].enum)
			continue
		}
		if what := reserved[join(path, name)]; what != "" && (v.Type() == reflect.TypeFor[Config]() || v.Type() == reflect.TypeFor[Network]()) {
			p.add(child.key, "%s: not available yet: this coffer has no %s", join(path, name), what)
			continue
		}
		if where := elsewhere[join(path, name)]; where != "" && (v.Type() == reflect.TypeFor[Config]() || v.Type() == reflect.TypeFor[Network]()) {
			p.add(child.key, "unknown key %s: %s", quote(join(path, name)), where)
			continue
		}
		names := namesOf(fields)
		if v.Type() == reflect.TypeFor[Config]() && ui.Nearest(name, names) == "" {
			// The flags for limits know of no table.
			if like := ui.Nearest(name, namesOf(keys(reflect.TypeFor[Limits]()))); like != "" {
				p.add(child.key, "unknown key %s: did you mean %s?", quote(name), quote(join("limits", like)))
				continue
			}
		}
		where := ""
		if path != "" {
			where = " in " + path
		}
		p.add(child.key, "unknown key %s%s: %s", quote(name), where, didYouMean(name, names))
	}
}

// A field is a key of a table.
type field struct {
	name  string
	enum  string
	index int
}

func keys(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		if name := f.Tag.Get("toml"); name != "" && name != "-" {
			fields = append(fields, field{name, f.Tag.Get("enum"), i})
		}
	}
	return fields
}

func namesOf(fields []field) (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

func join(path, name string) string {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		name = quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// didYouMean names the nearest of the names, or all.
func didYouMean(word string, names []string) string {
	if best := ui.Nearest(word, names); best != "" {
		return "did you mean " + quote(best) + "?"
	}
	return "there are " + strings.Join(names, ", ")
}

func oneOf(choices []string, word string) string {
	if best := ui.Nearest(word, choices); best != "" {
		return quote(best) + "? There are " + strings.Join(choices, ", ")
	}
	if len(choices) == 1 {
		return choices[0]
	}
	return strings.Join(choices[:len(choices)-1], ", ") + " or " + choices[len(choices)-1]
}
