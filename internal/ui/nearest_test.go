package ui

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"list", "ls", "logs", "status", "stop", "merge", "rebase", "port-forward", "presets", "run", "ai"}
	for word, want := range map[string]string{
		"lsit": "list", "LIST": "list", "logz": "logs", "mrege": "merge", "rebsae": "rebase", "statsu": "status",
		"port_froward": "port-forward", "presetz": "presets", "stat": "status", "reb": "rebase", "lss": "ls",
		"rn": "run", "ru": "run", "un": "run", "ia": "ai", "sl": "ls", "lo": "logs",
		"bogus": "", "start": "", "nosuch": "", "x": "", "l": "", "": "", "la": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
