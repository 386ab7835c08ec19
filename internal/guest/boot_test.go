package guest

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
)

// Every field of what is said at a start arrives: one that is new has to be written and read.
func TestBootArrives(t *testing.T) {
	boot := &Boot{}
	fill(t, reflect.ValueOf(boot).Elem())
	var line bytes.Buffer
	if err := WriteOrders(&line, boot); err != nil {
		t.Fatal(err)
	}
	got := &Boot{}
	if err := ReadOrders(&line, got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, boot) {
		t.Errorf("%+v arrived as %+v", boot, got)
	}
	ready := &Ready{}
	fill(t, reflect.ValueOf(ready).Elem())
	if err := wire.WriteMessage(&line, ready); err != nil {
		t.Fatal(err)
	}
	var heard Ready
	if err := wire.ReadMessage(&line, wire.MaxRequest, &heard); err != nil || heard != *ready {
		t.Errorf("%+v arrived as %+v, %v", ready, heard, err)
	}
}

// fill gives every field a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); p := f.Addr().Interface().(type) {
		case *int:
			*p = 1000 + i
		case *bool:
			*p = true
		case *string:
			*p = "some text"
		case **rootfs.Plan:
			*p = &rootfs.Plan{Writable: []string{"/w"}, Steps: []rootfs.Step{{Do: rootfs.Dir, Target: "/t\xff", Dev: 1 << 63}}}
		case *[]limits.Rlimit:
			*p = []limits.Rlimit{{Resource: 7, Soft: 1024, Hard: 1<<64 - 1}}
		default:
			t.Fatalf("no value for a %T", p)
		}
	}
}
