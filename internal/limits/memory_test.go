package limits

import (
	"math"
	"strings"
	"testing"
)

func TestParseMemory(t *testing.T) {
	for in, want := range map[string]int64{
		"6m":                   6 << 20,
		"6291456":              6 << 20,
		"512m":                 512 << 20,
		"512M":                 512 << 20,
		"512 MB":               512 << 20,
		" 2G ":                 2 << 30,
		"1.5GiB":               3 << 29,
		"6144.5k":              6<<20 + 512,
		"1tb":                  1 << 40,
		"9000000b":             9000000,
		"007m":                 7 << 20,
		"1.00000000000000001g": 1 << 30,
		"8388607t":             8388607 << 40,
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
		"1.5":                         `"1.5" is too little`,
		"-1":                          "is not a size",
		"-512m":                       "is not a size",
		"0":                           `"0" is too little for the sandbox itself: want at least 6m; for no limit, leave it out`,
		"0.0001k":                     "for no limit, leave it out",
		"512":                         `"512" is too little for the sandbox itself: want at least 6m, and a unit, such as 512m`,
		"1k":                          `"1k" is too little for the sandbox itself: want at least 6m`,
		"5.99m":                       "want at least 6m",
		"9223372036854775808":         "too large",
		"8388608t":                    "is too large: want less",
		strings.Repeat("9", 99) + "g": "too large",
	} {
		_, err := ParseMemory(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseMemory(%q): error %v; want %q in it", in, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		got  error
		want string
	}{
		{CheckPids(0), "0 is too low for the sandbox itself: want at least 32; for no limit, leave it out"},
		{CheckPids(-1), "-1 is too low for the sandbox itself: want at least 32"},
		{CheckPids(31), "31 is too low for the sandbox itself: want at least 32"},
		{CheckPids(32), ""},
		{CheckPids(maxPids + 1), "4194305 is more than a machine can have: want at most 4194304"},
		{CheckOpenFiles(63), "63 is too low for the sandbox itself: want at least 64"},
		{CheckOpenFiles(64), ""},
		{CheckCPUs(0), "0 is too low for anything to run: want at least 0.01; for no limit, leave it out"},
		{CheckCPUs(0.001), "0.001 is too low for anything to run: want at least 0.01"},
		{CheckCPUs(1.5), ""},
		{CheckCPUs(math.NaN()), "NaN is not a number of processors: want 0.01 to 65536, such as 1.5"},
		{CheckCPUs(math.Inf(1)), "+Inf is not a number of processors: want 0.01 to 65536, such as 1.5"},
		{CheckCPUs(math.Inf(-1)), "-Inf is too low for anything to run: want at least 0.01"},
	} {
		if c.got == nil && c.want != "" || c.got != nil && c.got.Error() != c.want {
			t.Errorf("got %v; want %q", c.got, c.want)
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
		if err == nil && n < minMemory {
			t.Errorf("ParseMemory(%q) = %d without an error", s, n)
		}
		if err != nil && n != 0 {
			t.Errorf("ParseMemory(%q) = %d with error %v", s, n, err)
		}
	})
}

func TestParseKeepFree(t *testing.T) {
	for in, want := range map[string]int64{"0": -1, " 0g ": -1, "1m": 1 << 20, "1.5GiB": 3 << 29, "1048576": 1 << 20} {
		if got, err := ParseKeepFree(in); err != nil || got != want {
			t.Errorf("ParseKeepFree(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":         "want a number and a unit, such as 512m or 2g, or 0",
		"much":     "is not a size",
		"-1":       "is not a size",
		"5":        `"5" is too little to be of use: want at least 1m, and a unit`,
		"9999999t": "is too large",
	} {
		if _, err := ParseKeepFree(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseKeepFree(%q): error %v; want %q in it", in, err, want)
		}
	}
}
