package limits

import (
	"math"
	"strings"
	"testing"
)

func TestParseMemory(t *testing.T) {
	for in, want := range map[string]int64{
		"1":                      1,
		"1048576":                1 << 20,
		"512m":                   512 << 20,
		"512M":                   512 << 20,
		"512 MB":                 512 << 20,
		" 2G ":                   2 << 30,
		"1.5GiB":                 3 << 29,
		"0.5k":                   512,
		"1tb":                    1 << 40,
		"100b":                   100,
		"007m":                   7 << 20,
		"9223372036854775807":    math.MaxInt64,
		"1.00000000000000001g":   1 << 30,
		"8388607.9999999999999t": math.MaxInt64, // a tenth of a byte below 2^63
	} {
		if got, err := ParseMemory(in); err != nil || got != want {
			t.Errorf("ParseMemory(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestParseMemoryRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "want a number",
		"m":                           "want a number",
		"12x":                         "want a number",
		"1e9":                         "want a number",
		"0x10":                        "want a number",
		"+5m":                         "want a number",
		"1..5g":                       "want a number",
		"1.5.0g":                      "want a number",
		"1.g":                         "want a number",
		".5g":                         "want a number",
		"1/2g":                        "want a number",
		"5 m m":                       "want a number",
		"1.5":                         "part of a byte",
		"-1":                          "negative",
		"-512m":                       "negative",
		"0":                           "zero",
		"0.0001k":                     "zero",
		"9223372036854775808":         "too large",
		"8388608t":                    "too large",
		strings.Repeat("9", 99) + "g": "too many digits",
	} {
		_, err := ParseMemory(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseMemory(%q): error %v; want %q in it", in, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, bad := range []Limits{
		{Memory: -1}, {Memory: 4096}, {Pids: -1}, {Pids: maxPids + 1}, {CPUs: -0.5}, {CPUs: 0.001},
		{CPUs: math.NaN()}, {CPUs: math.Inf(1)}, {OpenFiles: -1}, {PidsDefault: -1},
	} {
		if g, err := Prepare("x", bad); err == nil || g != nil {
			t.Errorf("Prepare(%+v) = %v, %v; want an error", bad, g, err)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"512m", "1.5GiB", "0", "-1", "9223372036854775807", "1e9", "\xff", "1.", "٣m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseMemory(s)
		if err == nil && n <= 0 {
			t.Errorf("ParseMemory(%q) = %d without an error", s, n)
		}
		if err != nil && n != 0 {
			t.Errorf("ParseMemory(%q) = %d with error %v", s, n, err)
		}
	})
}
