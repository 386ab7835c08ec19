package intercept

import (
	"strings"
	"testing"
)

func TestNewPlaceholder(t *testing.T) {
	t.Parallel()
	for value, shape := range map[string]string{
		aSecret:                                "sk-ant-api03-[0-9A-Za-z]r",
		"ghp_Zx81hQm4Kd92LwPq7TnVbY3rAAAA":     "ghp_",
		"550e8400-e29b-41d4-a716-446655440000": "5",
		"AKIAIOSFODNN7EXAMPLE":                 "AKIA",
		"correct-horse-battery-staple":         "c",
		"eyJhbGciOiJub25lIn0.eyJleHAiOjF9.c2lnbmF0dXJlc2lnbmF0dXJl": "eyJhbGciOiJub25lIn0.eyJleHAiOjF9.",
	} {
		p, err := NewPlaceholder(value)
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		keep, _, _ := strings.Cut(shape, "[")
		q, _ := NewPlaceholder(value)
		if !strings.HasPrefix(p, keep) || p == value || p == q {
			t.Errorf("%s has the placeholders %s and %s", value, p, q)
		}
		if _, err := newSwapper([]pair{{value, p}, {q, value}}); err != nil {
			t.Errorf("%s and %s: %v", value, p, err)
		}
		if value[8] == '-' && strings.Trim(p, "0123456789abcdef-") != "" {
			t.Errorf("%s is no UUID", p)
		}
	}
	for _, value := range []string{"", "x", "hunter2", "sk-ant-api03-short", "pâsswordpassword", "with%percent00000", "two\nlines00000000000", strings.Repeat("x", maxSecret+1), "----------------------"} {
		if p, err := NewPlaceholder(value); err == nil {
			t.Errorf("%q has the placeholder %q", value, p)
		} else if value != "" && value != "x" && strings.Contains(err.Error(), value) {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}
