package rootfs

import (
	"encoding/base64"
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
	want := Plan{Steps: []Step{full, {Do: Proc, Target: "/proc"}}, System: []string{"/usr", "/etc"}, Writable: []string{"/tmp"}, Volatile: true, Owned: true}
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

func TestPlanRefusesWhatIsDamaged(t *testing.T) {
	p := Plan{Steps: []Step{{Do: Dir, Target: "/a"}}, System: []string{"/usr"}}
	text, err := p.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if err := new(Plan).UnmarshalText([]byte(base64.StdEncoding.EncodeToString(whole[:n]))); err == nil {
			t.Errorf("the first %d of %d bytes were taken for a plan", n, len(whole))
		}
	}
	for _, bad := range []string{"*", string(text) + "AAAA"} {
		if err := new(Plan).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a plan", bad)
		}
	}
}

func FuzzPlan(f *testing.F) {
	text, _ := (&Plan{Steps: []Step{{Do: Dir, Target: "/a"}}}).MarshalText()
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var p Plan
		if p.UnmarshalText(text) != nil {
			return
		}
		again, _ := p.MarshalText()
		var q Plan
		if err := q.UnmarshalText(again); err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%+v became %+v, %v", p, q, err)
		}
	})
}
