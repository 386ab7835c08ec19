package main

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/cofferhq/coffer/internal/config"
)

func (c comments) jsonSchema() ([]byte, error) {
	s := c.schema(reflect.TypeFor[config.Config](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "coffer.toml"
	s["description"] = c["Config"]
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// schema describes a type. Maps are printed with sorted keys, so it is always the same.
func (c comments) schema(t reflect.Type, enum string) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return c.schema(t.Elem(), enum)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": "number", "minimum": 0}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": c.schema(t.Elem(), enum)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": c.schema(t.Elem(), "")}
	case reflect.Struct:
		properties := map[string]any{}
		for _, k := range c.keys(t) {
			one := c.schema(k.kind, k.enum)
			if k.doc != "" {
				one["description"] = k.doc
			} else if at := tableType(k.kind); at != nil {
				one["description"] = c[at.Name()]
			}
			properties[k.name] = one
		}
		return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	}
	s := map[string]any{"type": "string"}
	if t.Name() == "Port" || t.Name() == "Ready" {
		s["type"] = []string{"string", "integer"}
	}
	if enum != "" {
		s["enum"] = strings.Split(enum, ",")
	}
	return s
}

// tableType is the struct that a key holds, itself or under names; nil if none.
func tableType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Map || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		return t
	}
	return nil
}
