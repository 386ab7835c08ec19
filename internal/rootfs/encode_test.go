package rootfs

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestPlanTravels(t *testing.T) {
	full := Step{Do: Bind, Source: "/a", Target: "/b", Data: "c\n\xff", ReadOnly: true, Device: true, Shared: true,
		Optional: true, Dev: 1 << 63, Ino: 7, Mine: true, Create: true, Exec: true, FD: 3}
	for i := range reflect.TypeFor[Step]().NumField() {
		if reflect.ValueOf(full).Field(i).IsZero() {
			t.Errorf("field %s is not covered", reflect.TypeFor[Step]().Field(i).Name)
		}
	}
	want := Plan{Steps: []Step{full, {Do: Proc, Target: "/proc"}}, System: []string{"/usr", "/etc"}, Writable: []string{"/tmp\xff"}, Volatile: true, Owned: true}
	for i := range reflect.TypeFor[Plan]().NumField() {
		if reflect.ValueOf(want).Field(i).IsZero() {
			t.Errorf("field %s is not covered", reflect.TypeFor[Plan]().Field(i).Name)
		}
	}
	// As part of a message, which is how it travels.
	data, err := json.Marshal(struct{ Plan *Plan }{&want})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Plan *Plan }
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got.Plan, want) {
		t.Errorf("got %+v\nwant %+v", *got.Plan, want)
	}
}

func FuzzPlan(f *testing.F) {
	text, err := json.Marshal(&Plan{Steps: []Step{{Do: Dir, Target: "/a\xff"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var p Plan
		if json.Unmarshal(text, &p) != nil {
			return
		}
		again, err := json.Marshal(&p)
		if err != nil {
			t.Fatal(err)
		}
		var q Plan
		if err := json.Unmarshal(again, &q); err != nil {
			t.Fatal(err)
		}
		if last, err := json.Marshal(&q); err != nil || string(last) != string(again) {
			t.Errorf("%+v became %+v, %v", p, q, err)
		}
	})
}
