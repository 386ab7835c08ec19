package policy

import (
	"testing"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "512": 512, "10MB": 10 << 20, "10mb": 10 << 20, "10 MiB": 10 << 20, "1.5G": 3 << 29, "512k": 512 << 10,
		" 2T ": 2 << 40, "0.5k": 512} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "MB", "-1", "+1", "0", "0MB", "0.0000001k", "1.5", "1.", "1.2.3k", "1x", "10 M B", "1e3", "9223372036854775808",
		"8388608t", "99999999999999999999", "1_000", "0x10", "10MBMB", "١k",
	} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, in := range []string{"10MB", "1.5g", "0.1k", "9223372036854775807", "1..", "-3"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if n, err := ParseSize(in); err == nil && n <= 0 {
			t.Errorf("ParseSize(%q) = %d", in, n)
		}
	})
}
