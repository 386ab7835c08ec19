package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// Of a port in a file and one of a flag that have the same number, the flag's counts.
func TestPortsOfFlags(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	work := filepath.Join(home, "work")
	conf := filepath.Join(home, ".config", "coffer", "config.toml")
	for _, dir := range []string{work, filepath.Dir(conf)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(conf, []byte("[network]\nhost_ports = [5432, 6379]\npublish = [3000, \"4000:80\", \":9000\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	var s settings
	s.hostPorts, s.publish = []string{"5432:15432"}, []string{"4000:81", ":9000"}
	rec, err := s.record(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []sandbox.HostPort{{Inside: 5432, Outside: 15432}, {Inside: 6379, Outside: 6379}}; !reflect.DeepEqual(rec.Network.HostPorts, want) {
		t.Errorf("ports of the host: %+v", rec.Network.HostPorts)
	}
	if want := []sandbox.Forward{{Host: 3000, Inside: 3000}, {Any: true, Inside: 9000}, {Host: 4000, Inside: 81}, {Any: true, Inside: 9000}}; !reflect.DeepEqual(rec.Forwards, want) {
		t.Errorf("ports that lead inside: %+v", rec.Forwards)
	}
}
