package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"slices"
)

// A sandbox has a copy of the user's settings, which the agent rewrites and coffer adds to. A change
// of the user's is merged in at the next start, changes of the agent's stay, and coffer's keys are
// set last, see [Home.Put].

// Rewrites says whether a file of the home is one that an agent has its settings in, and
// writes to.
func Rewrites(name string) bool {
	return slices.ContainsFunc(Known(), func(a *Agent) bool { return slices.Contains(a.Settings, name) })
}

// Lay brings a file of the user's into the home: was is its content when it was laid there last, is
// the present one, nil for none. If both are JSON, changes made inside stay; otherwise the user's
// version replaces the file.
func (h *Home) Lay(name string, was, is []byte) error {
	have, err := h.Read(name)
	switch {
	case err == nil && bytes.Equal(was, is):
		return nil
	case err == nil && !bytes.Equal(have, was):
		if merged := follow(object(have), object(was), object(is)); merged != nil {
			return h.Write(name, jsonText(merged))
		}
	}
	if is != nil {
		return h.Write(name, is)
	}
	if err := h.root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// object reads JSON, with comments perhaps. It is nil for what is no object.
func object(data []byte) (o map[string]any) {
	if data == nil {
		return map[string]any{}
	}
	d := json.NewDecoder(bytes.NewReader(StripComments(data)))
	d.UseNumber() // numbers are somebody else's, and stay what they are
	if d.Decode(&o) != nil {
		return nil
	}
	return o
}

// follow changes an object as another one was changed. It is nil if one of them is.
func follow(have, was, is map[string]any) map[string]any {
	if have == nil || was == nil || is == nil {
		return nil
	}
	for name, v := range is {
		before, known := was[name]
		if known && reflect.DeepEqual(before, v) {
			continue
		}
		below, ok1 := have[name].(map[string]any)
		now, ok2 := v.(map[string]any)
		if then, ok3 := before.(map[string]any); ok1 && ok2 && (ok3 || !known) {
			if then == nil {
				then = map[string]any{}
			}
			v = follow(below, then, now)
		}
		have[name] = v
	}
	for name, v := range was {
		if _, stays := is[name]; !stays && reflect.DeepEqual(have[name], v) {
			delete(have, name)
		}
	}
	return have
}

// StripComments makes JSON of JSON as people write it, with comments and with commas before
// closing brackets. What is none is none afterwards, too.
func StripComments(in []byte) []byte {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		switch {
		case in[i] == '"':
			end := endOfText(in, i)
			out = append(out, in[i:end]...)
			i = end
		case bytes.HasPrefix(in[i:], []byte("//")):
			for i < len(in) && in[i] != '\n' {
				i++
			}
		case bytes.HasPrefix(in[i:], []byte("/*")):
			end := bytes.Index(in[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			i += 2 + end + 2
			out = append(out, ' ')
		case in[i] == '}' || in[i] == ']':
			out = append(trimComma(out), in[i])
			i++
		default:
			out = append(out, in[i])
			i++
		}
	}
	return out
}

// endOfText is where the text ends that begins at i.
func endOfText(in []byte, i int) int {
	for i++; i < len(in) && in[i] != '"'; i++ {
		if in[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(in))
}

// trimComma takes a comma off the end, and the space after it.
func trimComma(b []byte) []byte {
	if rest, ok := bytes.CutSuffix(bytes.TrimRight(b, " \t\r\n"), []byte(",")); ok {
		return rest
	}
	return b
}
