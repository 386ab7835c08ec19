package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/pelletier/go-toml/v2"
)

const root = "../../.."

// What is checked in is what the types say.
func TestUpToDate(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is not up to date (%v): run 'go generate ./internal/config'", name, err)
		}
	}
}

// Every key says what it is for.
func TestDocumented(t *testing.T) {
	c, err := readComments(root+"/internal/config/schema.go", root+"/internal/config/floor.go", root+"/internal/policy/source.go")
	if err != nil {
		t.Fatal(err)
	}
	var walk func(reflect.Type)
	walk = func(at reflect.Type) {
		for _, k := range c.keys(at) {
			below := tableType(k.kind)
			if k.doc == "" && (below == nil || c[below.Name()] == "") {
				t.Errorf("%s.%s has no comment", at.Name(), k.name)
			}
			if below != nil {
				walk(below)
			}
		}
	}
	walk(reflect.TypeFor[config.Config]())
	walk(reflect.TypeFor[config.Floor]())
}

// The schema accepts every preset and every example, and refuses what is wrong.
func TestSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(config.JSONSchema, &schema); err != nil {
		t.Fatal(err)
	}
	presets, err := (config.Places{}).FindPresets()
	if err != nil || len(presets) == 0 {
		t.Fatal(presets, err)
	}
	good := []string{"", "[network]\nhost_ports = [1, \"2:3\"]\n[[network.rules]]\nname = \"x\"\nallow = [\"a\"]\nenabled = false\n[mounts.m]\nsource = \"x\"\n[env.set]\nA = \"b\""}
	for _, p := range presets {
		good = append(good, p.Text)
	}
	for _, block := range strings.Split(head, "```")[1:] {
		if text, ok := strings.CutPrefix(block, "toml\n"); ok {
			good = append(good, text)
		}
	}
	for _, text := range good {
		if why := check(t, schema, text); why != "" {
			t.Errorf("%s\nis refused: %s", text, why)
		}
	}
	for _, text := range []string{"x = 1", "nesting = 1", "[limits]\npids = \"1\"", "presets = [1]", "[workspace]\nmode = \"x\"", "[[network.rules]]\nx = 1", "[mounts.m]\nx = 1", "[env.set]\nA = 1", "mounts = []"} {
		if check(t, schema, text) == "" {
			t.Errorf("%q is accepted", text)
		}
	}
}

func check(t *testing.T, schema map[string]any, text string) string {
	t.Helper()
	var v map[string]any
	if err := toml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if v == nil {
		v = map[string]any{}
	}
	return validate(schema, v, "")
}

// validate knows as much of JSON Schema as ours uses.
func validate(s map[string]any, v any, path string) string {
	kind := map[reflect.Kind]string{reflect.String: "string", reflect.Int64: "integer", reflect.Float64: "number", reflect.Bool: "boolean", reflect.Map: "object", reflect.Slice: "array"}[reflect.TypeOf(v).Kind()]
	want, ok := s["type"].([]any)
	if !ok {
		want = []any{s["type"]}
	}
	fits := false
	for _, w := range want {
		fits = fits || w == kind || w == "number" && kind == "integer"
	}
	if !fits {
		return path + ": " + kind
	}
	if enum, ok := s["enum"].([]any); ok {
		found := false
		for _, e := range enum {
			found = found || e == v
		}
		if !found {
			return path + ": not a choice"
		}
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if why := validate(s["items"].(map[string]any), item, path+"[]"); why != "" {
				return why
			}
		}
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for name, item := range v {
			one, ok := properties[name].(map[string]any)
			if !ok {
				if one, ok = s["additionalProperties"].(map[string]any); !ok {
					return path + "." + name + ": unknown"
				}
			}
			if why := validate(one, item, path+"."+name); why != "" {
				return why
			}
		}
	}
	return ""
}
