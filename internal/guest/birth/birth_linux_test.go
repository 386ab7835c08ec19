package birth

import (
	"strings"
	"testing"
)

func TestWanted(t *testing.T) {
	for line, want := range map[string]struct{ run, network bool }{
		"coffer":                              {},
		"coffer run":                          {},
		"coffer ls run":                       {},
		"coffer exec -- run":                  {},
		"coffer-guest run -- true":            {},
		"/x/coffer-root run -- true":          {},
		"/x/sudo run -- true":                 {},
		"coffer run --help":                   {},
		"coffer run -d -- true":               {},
		"coffer run --detach -- true":         {},
		"coffer run -- true":                  {true, true},
		"/usr/bin/coffer run true --help":     {true, true},
		"coffer run -- sh -h":                 {true, true},
		"coffer run --net none -- true":       {true, false},
		"coffer run --net=none -- true":       {true, false},
		"coffer run --net open -- true":       {true, true},
		"coffer run -- curl --net none":       {true, true},
		"coffer run --memory 1g --net none x": {true, false},
	} {
		argv := strings.Fields(line)
		if got := wanted(argv); got != want.run {
			t.Errorf("wanted(%q) = %v", line, got)
		}
		if want.run && networked(argv) != want.network {
			t.Errorf("networked(%q) = %v", line, !want.network)
		}
	}
}
