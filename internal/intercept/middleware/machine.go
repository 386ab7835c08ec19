package middleware

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/arnodel/golua/lib/base"
	"github.com/arnodel/golua/lib/mathlib"
	"github.com/arnodel/golua/lib/packagelib"
	"github.com/arnodel/golua/lib/stringlib"
	"github.com/arnodel/golua/lib/tablelib"
	"github.com/arnodel/golua/lib/utf8lib"
	rt "github.com/arnodel/golua/runtime"
	"github.com/cofferhq/coffer/internal/intercept"
)

// A machine is the Lua of one exchange. It is used by one goroutine at a time.
type machine struct {
	*rt.Runtime
	script *Script
	env    *rt.Table // the globals
	logs   int

	left    time.Duration // that the call may still take
	started time.Time     // when it began, or last went on
	bodies  map[*rt.Table][]byte
	arrays  *rt.Table // the metatable of tables that were JSON arrays
	null    rt.Value
}

func newRuntime() *rt.Runtime {
	r := rt.New(io.Discard)
	// It is part of a cycle, and with a finalizer that would never be freed. No value needs one.
	runtime.SetFinalizer(r, nil)
	return r
}

const safe = rt.ComplyCpuSafe | rt.ComplyMemSafe | rt.ComplyTimeSafe | rt.ComplyIoSafe

// What of the interpreter's own base library a script sees. All else is a file, a compiler, the
// collector of this process, or replaced below.
var kept = []string{"_VERSION", "assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "rawlen", "rawset", "select", "tonumber", "tostring", "type"}

// A field is a name and a value of a table that every machine gets a copy of.
type field struct{ name, value rt.Value }

// libraries are made once: functions can be shared, tables cannot.
var libraries = sync.OnceValue(func() map[string][]field {
	r := newRuntime()
	all := map[string][]field{}
	_, _ = base.LibLoader.Load(r)
	for _, name := range kept {
		name := rt.StringValue(name)
		all["_G"] = append(all["_G"], field{name, r.GlobalEnv().Get(name)})
	}
	for name, f := range map[string]func(*rt.Thread, []rt.Value) ([]rt.Value, error){"pcall": pcall, "xpcall": xpcall, "setmetatable": setmetatable} {
		all["_G"] = append(all["_G"], field{rt.StringValue(name), goFunction(name, f)})
	}
	take := func(name string, t *rt.Table) {
		for k, v, ok := t.Next(rt.NilValue); ok && !k.IsNil(); k, v, ok = t.Next(k) {
			if s, _ := k.TryString(); s != "dump" && s != "__index" {
				all[name] = append(all[name], field{k, v})
			}
		}
	}
	for _, l := range []packagelib.Loader{stringlib.LibLoader, tablelib.LibLoader, mathlib.LibLoader, utf8lib.LibLoader} {
		lib, _ := l.Load(r)
		take(l.Name, lib.AsTable())
	}
	take("", r.RawMetatable(rt.StringValue("")))
	return all
})

func newMachine(s *Script) *machine {
	m := &machine{Runtime: newRuntime(), script: s, env: rt.NewTable(), bodies: map[*rt.Table][]byte{}, arrays: rt.NewTable()}
	set := func(t *rt.Table, name string, v rt.Value) { t.Set(rt.StringValue(name), v) }
	texts := rt.NewTable()
	for name, fields := range libraries() {
		t := map[string]*rt.Table{"_G": m.env, "": texts}[name]
		if t == nil {
			t = rt.NewTable()
			set(m.env, name, rt.TableValue(t))
		}
		for _, f := range fields {
			t.Set(f.name, f.value)
		}
	}
	set(texts, "__index", m.env.Get(rt.StringValue("string")))
	set(texts, "__metatable", rt.BoolValue(false))
	m.SetStringMeta(texts)
	set(m.arrays, "__metatable", rt.BoolValue(false))
	set(m.env, "_G", rt.TableValue(m.env))
	log := goFunction("log", m.log)
	set(m.env, "log", log)
	set(m.env, "print", log)
	m.null = m.table(&object{text: "null"})
	set(m.env, "null", m.null)
	env := rt.NewTable()
	for name, value := range s.Env {
		set(env, name, rt.StringValue(value))
	}
	set(m.env, "env", rt.TableValue(env))
	return m
}

// goFunction makes a function of any number of arguments.
func goFunction(name string, f func(t *rt.Thread, args []rt.Value) ([]rt.Value, error)) rt.Value {
	g := rt.NewGoFunction(func(t *rt.Thread, c *rt.GoCont) (rt.Cont, error) {
		results, err := f(t, c.Etc())
		if err != nil {
			return nil, err
		}
		return c.PushingNext(t.Runtime, results...), nil
	}, name, 0, true)
	g.SolemnlyDeclareCompliance(safe)
	return rt.FunctionValue(g)
}

// call runs f within the limits. Its error is a refusal that names the script and the line; what the
// script said of it is only logged, as it may hold what the sandbox must not see.
func (m *machine) call(memory uint64, f func(*rt.Thread) error) (err error) {
	t := m.MainThread()
	m.left, m.started = maxMillis*time.Millisecond, time.Now()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		if err == nil {
			return
		}
		line := ""
		for c := t.CurrentCont(); c != nil && line == ""; c = c.Parent() {
			if d := c.DebugInfo(); d != nil && d.Source == m.script.Name && d.CurrentLine > 0 {
				line = fmt.Sprintf(", line %d,", d.CurrentLine)
			}
		}
		why := err.Error()
		if len(why) > maxLogLength {
			why = why[:maxLogLength]
		}
		m.say("the script failed" + strings.TrimSuffix(line, ",") + ": " + why)
		err = &intercept.Refusal{Status: http.StatusBadGateway, Rule: m.script.Name, Reason: "the script " + m.script.Name + line + " failed"}
	}()
	_, err = t.CallContext(m.limits(maxSteps, memory), func() error { return f(t) })
	return err
}

func (m *machine) limits(steps, memory uint64) rt.RuntimeContextDef {
	return rt.RuntimeContextDef{
		HardLimits:    rt.RuntimeResources{Cpu: steps, Memory: memory, Millis: uint64(max(1, m.left.Milliseconds()))},
		RequiredFlags: safe,
	}
}

// outside lets f wait for the network while the script's time stands still. There is one context
// only, as nothing here nests them.
func (m *machine) outside(f func()) {
	m.left -= time.Since(m.started)
	limits := m.HardLimits()
	used := m.PopContext().UsedResources()
	f()
	m.started = time.Now()
	m.PushContext(m.limits(limits.Cpu, limits.Memory))
	m.RequireCPU(used.Cpu)
	m.RequireMem(used.Memory)
}

func (m *machine) say(line string) {
	if m.script.Log != nil {
		m.script.Log(line)
	}
}

func (m *machine) log(t *rt.Thread, args []rt.Value) ([]rt.Value, error) {
	line := ""
	for i, v := range args {
		s, err := base.ToString(t, v)
		if err != nil {
			return nil, err
		}
		t.RequireBytes(len(line) + len(s))
		if i > 0 {
			line += "\t"
		}
		line += s
	}
	if m.logs++; m.logs > maxLogs {
		return nil, fmt.Errorf("a script may log %d lines for one request", maxLogs)
	}
	m.say(line[:min(len(line), maxLogLength)])
	return nil, nil
}

// pcall is here because the interpreter's begins a context of its own, in which time is not looked
// at for as long as the script has computed before.
func pcall(t *rt.Thread, args []rt.Value) ([]rt.Value, error) {
	if len(args) == 0 {
		return nil, errors.New("pcall wants a function")
	}
	results, err := call(t, args[0], args[1:])
	if err != nil {
		return []rt.Value{rt.BoolValue(false), rt.ErrorValue(err)}, nil
	}
	return append([]rt.Value{rt.BoolValue(true)}, results...), nil
}

func xpcall(t *rt.Thread, args []rt.Value) ([]rt.Value, error) {
	if len(args) < 2 {
		return nil, errors.New("xpcall wants a function and a handler")
	}
	results, err := call(t, args[0], args[2:])
	if err != nil {
		results, err = call(t, args[1], []rt.Value{rt.ErrorValue(err)})
		return append([]rt.Value{rt.BoolValue(false)}, results...), err
	}
	return append([]rt.Value{rt.BoolValue(true)}, results...), nil
}

func call(t *rt.Thread, f rt.Value, args []rt.Value) ([]rt.Value, error) {
	end := rt.NewTerminationWith(t.CurrentCont(), 0, true)
	err := rt.Call(t, f, args, end)
	return end.Etc(), err
}

// What a metatable may say. Not __gc and __close, whose functions run when a script has been
// stopped and nothing counts any more.
var events = []string{
	"__index", "__newindex", "__call", "__tostring", "__name", "__pairs", "__len", "__eq", "__lt", "__le", "__concat", "__unm", "__bnot",
	"__add", "__sub", "__mul", "__div", "__idiv", "__mod", "__pow", "__band", "__bor", "__bxor", "__shl", "__shr",
}

// setmetatable gives a table a copy of its metatable, in which functions are called through Go. The
// interpreter counts how deep Go functions call each other; of metamethods that call themselves it
// would not know before the stack of this process is full, and of a __call that is no function never.
func setmetatable(t *rt.Thread, args []rt.Value) ([]rt.Value, error) {
	if len(args) < 2 {
		return nil, errors.New("setmetatable wants a table and a metatable")
	}
	of, ok := args[0].TryTable()
	if !ok {
		return nil, errors.New("setmetatable wants a table")
	}
	locked, protect := rt.StringValue("locked"), rt.StringValue("__metatable")
	if old := of.Metatable(); old != nil && old.Get(locked).IsNil() {
		return nil, errors.New("this metatable cannot be changed")
	}
	meta, ok := args[1].TryTable()
	if !ok && !args[1].IsNil() {
		return nil, errors.New("a metatable is a table or nil")
	}
	if !ok {
		of.SetMetatable(nil)
		return args[:1], nil
	}
	for _, name := range []string{"__gc", "__close"} {
		if !meta.Get(rt.StringValue(name)).IsNil() {
			return nil, fmt.Errorf("%s is not available to scripts", name)
		}
	}
	t.RequireMem(512)
	own := rt.NewTable()
	for _, name := range events {
		v := meta.Get(rt.StringValue(name))
		_, isTable := v.TryTable()
		switch {
		case v.IsNil():
			continue
		case v.Type() == rt.FunctionType:
			f := v
			t.RequireMem(256)
			v = goFunction(name, func(t *rt.Thread, args []rt.Value) ([]rt.Value, error) { return call(t, f, args) })
		case name == "__name", isTable && (name == "__index" || name == "__newindex"):
		default:
			return nil, fmt.Errorf("%s must be a function", name)
		}
		t.SetTable(own, rt.StringValue(name), v)
	}
	if p := meta.Get(protect); !p.IsNil() {
		t.SetTable(own, protect, p)
	} else {
		t.SetTable(own, protect, args[1])
		t.SetTable(own, locked, rt.BoolValue(false))
	}
	of.SetMetatable(own)
	return args[:1], nil
}

// A method is called as object:method(args).
type method func(t *rt.Thread, args []rt.Value) (rt.Value, error)

// An object is what Go shows to a script as a table.
type object struct {
	get    map[string]func() rt.Value
	set    map[string]func(rt.Value) error
	method map[string]method
	text   string // of tostring and #, if there are no fields to set
}

// table makes the table of an object. What a script sets on it that is no field is an error, so that
// a misspelt one is seen.
func (m *machine) table(o *object) rt.Value {
	self := rt.NewTable()
	meta := rt.NewTable()
	set := func(name string, f func(t *rt.Thread, args []rt.Value) ([]rt.Value, error)) {
		meta.Set(rt.StringValue(name), goFunction(name, f))
	}
	set("__index", func(t *rt.Thread, args []rt.Value) ([]rt.Value, error) {
		name, _ := args[1].TryString()
		if get := o.get[name]; get != nil {
			return []rt.Value{get()}, nil
		}
		do := o.method[name]
		if do == nil {
			return []rt.Value{rt.NilValue}, nil
		}
		t.RequireMem(256)
		return []rt.Value{goFunction(name, func(t *rt.Thread, args []rt.Value) ([]rt.Value, error) {
			if len(args) == 0 || !args[0].Equals(rt.TableValue(self)) {
				return nil, fmt.Errorf("%s is called with a colon, as in req:%s()", name, name)
			}
			v, err := do(t, args[1:])
			return []rt.Value{v}, err
		})}, nil
	})
	set("__newindex", func(_ *rt.Thread, args []rt.Value) ([]rt.Value, error) {
		name, _ := args[1].TryString()
		if do := o.set[name]; do != nil {
			return nil, do(args[2])
		}
		return nil, fmt.Errorf("%q cannot be set", clip(name))
	})
	if o.set == nil {
		set("__tostring", func(t *rt.Thread, _ []rt.Value) ([]rt.Value, error) { return []rt.Value{rt.StringValue(o.text)}, nil })
		set("__len", func(*rt.Thread, []rt.Value) ([]rt.Value, error) {
			return []rt.Value{rt.IntValue(int64(len(o.text)))}, nil
		})
	}
	meta.Set(rt.StringValue("__metatable"), rt.BoolValue(false))
	self.SetMetatable(meta)
	return rt.TableValue(self)
}

// text is an argument that is a string or a number.
func text(args []rt.Value, n int) (string, error) {
	if n < len(args) {
		if s, ok := args[n].TryString(); ok {
			return s, nil
		}
		if _, _, kind := rt.ToNumber(args[n]); kind == rt.IsInt || kind == rt.IsFloat {
			s, _ := args[n].ToString()
			return s, nil
		}
	}
	return "", fmt.Errorf("argument %d must be a text", n+1)
}
