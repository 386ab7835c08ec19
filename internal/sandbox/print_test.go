package sandbox

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is printed is what json writes, whichever field of a record is set: one that is
// new, too.
func TestPrintedAsJSON(t *testing.T) {
	plain := Record{
		Version: recordVersion, ID: "abcdefgh", Name: "a-name", Created: time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600)),
		Workspace: Workspace{Path: "/a b/c<&>", Mode: WorkspaceDirect, Start: "in/it"},
	}
	check(t, "plain", plain, true)
	var set func(name string, v reflect.Value, change func())
	set = func(name string, v reflect.Value, change func()) {
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				set(name+"."+v.Type().Field(i).Name, v.Field(i), change)
			}
			return
		}
		before := reflect.ValueOf(v.Interface())
		for _, value := range samples(v) {
			v.Set(value)
			change()
		}
		v.Set(before)
	}
	rec := plain
	n := 0
	set("Record", reflect.ValueOf(&rec).Elem(), func() { n++; check(t, fmt.Sprint(n), rec, false) })
	if n < 50 {
		t.Errorf("only %d records were tried", n)
	}
}

// samples are values that a field may have.
func samples(v reflect.Value) (list []reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		one := reflect.MakeSlice(v.Type(), 1, 1)
		if v.Type().Elem().Kind() == reflect.String {
			one.Index(0).SetString("a=b c")
		}
		return []reflect.Value{reflect.Zero(v.Type()), reflect.MakeSlice(v.Type(), 0, 0), one, reflect.AppendSlice(one, one)}
	case reflect.String:
		for _, s := range []string{"", "plain", "quo\"te", "back\\slash", "new\nline", "ünïcode", "\u2028", "\x7f", "<&>"} {
			list = append(list, reflect.ValueOf(s).Convert(v.Type()))
		}
	case reflect.Bool:
		return []reflect.Value{reflect.ValueOf(true), reflect.ValueOf(false)}
	case reflect.Float64:
		return []reflect.Value{reflect.ValueOf(1.5)}
	case reflect.Int, reflect.Int64:
		for _, n := range []int64{0, 1, 1 << 40, -3} {
			list = append(list, reflect.ValueOf(n).Convert(v.Type()))
		}
	}
	return list
}

func check(t *testing.T, name string, r Record, must bool) {
	t.Helper()
	got, ok := printed(&r)
	if !ok {
		if must {
			t.Errorf("%s is not printed", name)
		}
		return
	}
	if want, err := encode(&r); err != nil || string(got) != string(want) {
		t.Errorf("%s: got\n%s\nwant %v\n%s", name, got, err, strings.TrimSpace(string(want)))
	}
}
