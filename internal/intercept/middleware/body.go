package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	rt "github.com/arnodel/golua/runtime"
)

// readBody reads the whole body and makes a Body of it. The message keeps it.
func (m *message) readBody(t *rt.Thread) (rt.Value, error) {
	switch {
	case m.whole != nil:
		return rt.TableValue(m.whole), nil
	case m.final, m.each:
		return rt.NilValue, errors.New("the body is on its way")
	}
	var data []byte
	if *m.body != nil {
		var err error
		m.outside(func() {
			data, err = io.ReadAll(io.LimitReader(*m.body, maxBody+1))
			_ = (*m.body).Close()
		})
		if err != nil {
			return rt.NilValue, errors.New("the body broke off")
		}
		if len(data) > maxBody {
			return rt.NilValue, fmt.Errorf("the body has more than %d bytes", maxBody)
		}
		*m.body = io.NopCloser(bytes.NewReader(data))
	}
	t.RequireBytes(2 * len(data))
	m.whole = m.newBody(data)
	return rt.TableValue(m.whole), nil
}

func (m *machine) newBody(data []byte) *rt.Table {
	o := &object{text: string(data), method: map[string]method{}}
	o.method["text"] = func(*rt.Thread, []rt.Value) (rt.Value, error) { return rt.StringValue(o.text), nil }
	o.method["len"] = func(*rt.Thread, []rt.Value) (rt.Value, error) { return rt.IntValue(int64(len(data))), nil }
	o.method["json"] = func(t *rt.Thread, _ []rt.Value) (rt.Value, error) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		v, err := m.decode(t, d, 0)
		if _, end := d.Token(); err == nil && end != io.EOF {
			err = errors.New("the JSON has something after its end")
		}
		return v, err
	}
	body := m.table(o).AsTable()
	m.bodies[body] = data
	return body
}

// setBody gives a message another body: a text, a Body, a table as JSON, or nothing.
func (m *message) setBody(t *rt.Thread, v rt.Value) error {
	if m.each {
		return errors.New("the body is on its way")
	}
	table, isTable := v.TryTable()
	data, isBody := m.bodies[table]
	switch {
	case isTable && !isBody:
		var out bytes.Buffer
		if err := m.encode(t, &out, v, 0); err != nil {
			return err
		}
		data = out.Bytes()
		if m.header.Get("Content-Type") == "" {
			m.header.Set("Content-Type", "application/json")
		}
	case !isTable && !v.IsNil():
		s, err := text([]rt.Value{v}, 0)
		if err != nil {
			return err
		}
		t.RequireBytes(len(s))
		data = []byte(s)
	}
	if len(data) > maxBody {
		return fmt.Errorf("the body has more than %d bytes", maxBody)
	}
	if !isBody {
		m.header.Del("Content-Encoding")
	}
	if *m.body != nil {
		_ = (*m.body).Close()
	}
	*m.body, *m.length, m.whole = io.NopCloser(bytes.NewReader(data)), int64(len(data)), m.newBody(data)
	if len(data) == 0 {
		*m.body = http.NoBody
	}
	m.header.Set("Content-Length", strconv.Itoa(len(data)))
	return nil
}

const maxDepth = 100

var errDeep = fmt.Errorf("JSON may be %d levels deep", maxDepth)

// decode makes a value of JSON. An array remembers that it is one, and null is the global null, so
// that what a script does not touch goes out as it came.
func (m *machine) decode(t *rt.Thread, d *json.Decoder, depth int) (rt.Value, error) {
	t.RequireCPU(10)
	token, err := d.Token()
	if err != nil {
		return rt.NilValue, errors.New("this is not JSON")
	}
	if depth > maxDepth {
		return rt.NilValue, errDeep
	}
	switch v := token.(type) {
	case string:
		t.RequireBytes(len(v))
		return rt.StringValue(v), nil
	case bool:
		return rt.BoolValue(v), nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return rt.IntValue(n), nil
		}
		f, err := v.Float64()
		return rt.FloatValue(f), err
	case json.Delim:
		t.RequireMem(128)
		all := rt.NewTable()
		if v == '[' {
			all.SetMetatable(m.arrays)
		}
		for n := int64(1); d.More(); n++ {
			key := rt.IntValue(n)
			if v == '{' {
				name, err := d.Token()
				s, ok := name.(string)
				if err != nil || !ok {
					return rt.NilValue, errors.New("this is not JSON")
				}
				t.RequireBytes(len(s))
				key = rt.StringValue(s)
			}
			value, err := m.decode(t, d, depth+1)
			if err != nil {
				return rt.NilValue, err
			}
			t.SetTable(all, key, value)
		}
		if _, err := d.Token(); err != nil {
			return rt.NilValue, errors.New("this is not JSON")
		}
		return rt.TableValue(all), nil
	}
	return m.null, nil
}

// encode writes a value as JSON.
func (m *machine) encode(t *rt.Thread, out *bytes.Buffer, v rt.Value, depth int) error {
	t.RequireCPU(10)
	if depth > maxDepth {
		return errDeep
	}
	before := out.Len()
	defer func() { t.RequireBytes(max(0, min(64, out.Len()-before))) }()
	put := func(v any) error {
		data, err := json.Marshal(v)
		t.RequireBytes(2 * len(data))
		out.Write(data)
		return err
	}
	if s, ok := v.TryString(); ok {
		t.RequireBytes(6 * len(s))
		return put(s)
	}
	if f, ok := v.TryFloat(); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return errors.New("JSON has no such number")
	}
	table, ok := v.TryTable()
	switch {
	case v.Equals(m.null), v.IsNil():
		return put(nil)
	case !ok && v.Type() == rt.FunctionType:
		return errors.New("JSON has no functions")
	case !ok:
		return put(v.Interface())
	}
	isArray := table.Metatable() == m.arrays || table.Len() > 0
	for k, _, ok := table.Next(rt.NilValue); isArray && ok && !k.IsNil(); k, _, ok = table.Next(k) {
		if n, ok := k.TryInt(); !ok || n < 1 || n > table.Len() {
			return errors.New("a table for JSON has either names or numbers without gaps")
		}
	}
	first := true
	item := func(sign byte) {
		if !first {
			out.WriteByte(sign)
		}
		first = false
	}
	if isArray {
		out.WriteByte('[')
		for n := int64(1); n <= table.Len(); n++ {
			item(',')
			if err := m.encode(t, out, table.Get(rt.IntValue(n)), depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	}
	out.WriteByte('{')
	for k, v, ok := table.Next(rt.NilValue); ok && !k.IsNil(); k, v, ok = table.Next(k) {
		name, err := text([]rt.Value{k}, 0)
		if err != nil {
			return errors.New("a name in JSON is a text")
		}
		item(',')
		if err := put(name); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := m.encode(t, out, v, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}
