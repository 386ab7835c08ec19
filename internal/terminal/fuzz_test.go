package terminal

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// allowed is what the output may consist of, written down a second time and
// in another way than the filter does it: as the forms a reviewer would allow
// when looking at the output, each whole from its ESC to its end.
var allowed = []*regexp.Regexp{
	regexp.MustCompile(`^\x1b[6789=>DEHMZc]`),
	regexp.MustCompile(`^\x1b[()*+][012AB]`),
	regexp.MustCompile(`^\x1b(?:#[34568]| F|%G)`),
	regexp.MustCompile(`^\x1b\[[0-9;:]*m`),
	regexp.MustCompile(`^\x1b\[[0-9;]*[A-MPSTXZ@^\x60a-hj-lnrsu]`),
	regexp.MustCompile(`^\x1b\[0*(?:1[45689]|2[23])(?:;[0-9;]*)?t`),
	regexp.MustCompile(`^\x1b\[\?[0-9;]*[hlsrJKWcnmfgSu]`),
	regexp.MustCompile(`^\x1b\[>[0-9;]*[cqmnfups]`),
	regexp.MustCompile(`^\x1b\[[=<][0-9;]*[cu]`),
	regexp.MustCompile(`^\x1b\[\??[0-9;]*\$p`),
	regexp.MustCompile(`^\x1b\[[0-9;]*(?: [@Aq]|'[}~]|\$[rtvxz{]|\*x|"q|#[{}pqPQ]|!p)`),
	regexp.MustCompile(`^\x1b\]((?:[012458]|9;4;[0-9;]*|9;[^\x00-\x1f\x7f0-9][^\x00-\x1f\x7f]*|1[0-9]|2[12]|66|99|1[01][0-9]|133|777;notify|30[01]01|1337;(?:SetMark|FileEnd|FilePart|MultipartFile|ReportCellSize|Capabilities|CursorShape))(?:[;=][^\x00-\x1f\x7f]*)?)(?:\x07|\x1b\\)`),
	regexp.MustCompile(`^\x1b\]1337;File=[^:\x00-\x1f]*inline=1[^:\x00-\x1f]*:[A-Za-z0-9+/=\r\n]*(?:\x07|\x1b\\)`),
	regexp.MustCompile(`^\x1bP[0-9;]*q[\x20-\x7e\r\n]*\x1b\\`),
	regexp.MustCompile(`^\x1bP(?:\+q[0-9a-fA-F;]+|=[12]s)\x1b\\`),
	regexp.MustCompile(`^\x1b_G[A-Za-z0-9=,_-]*(?:;[A-Za-z0-9+/=]*)?\x1b\\`),
}

// forbidden is what must not be found at an ESC, whatever allowed says.
var forbidden = []*regexp.Regexp{
	regexp.MustCompile(`^\x1b\[\??[0-9;]*i`),
	regexp.MustCompile(`^\x1b\[0*2[01](?:;[0-9;]*)?t`),
	regexp.MustCompile(`^\x1b\[\?(?:[0-9]+;)*0*(?:2|38|46)(?:;[0-9]+)*[hlrs]`),
	regexp.MustCompile(`^\x1b\](?:7|50|51|52|5522|83|633);`),
	regexp.MustCompile(`^\x1b\]1337;(?:Copy|Report[^C]|Request|SetUser|CurrentDir)`),
	regexp.MustCompile(`^\x1b_G[^;\x1b]*t=[^d]`),
	regexp.MustCompile(`^\x1bP(?:tmux|@kitty|\$|[0-9;]*\|)`),
	regexp.MustCompile(`^\x1b\]9;[0-35-9]`),
}

// offence returns the first place in s that must not be there.
func offence(s string) string {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1 && s[0] < 0xa0, isC1(r):
			return s
		case r == '\x1b':
			if n = sequence(s); n == 0 {
				return s
			}
		case r < 0x20 && !strings.ContainsRune("\x00\a\b\t\n\v\f\r\x0e\x0f", r):
			return s
		}
		s = s[n:]
	}
	return ""
}

// sequence returns the length of the sequence at the start of s, or 0.
func sequence(s string) int {
	for _, re := range forbidden {
		if re.MatchString(s) {
			return 0
		}
	}
	for _, re := range allowed {
		m := re.FindStringSubmatch(s)
		if m == nil || len(m) > 1 && strings.ContainsFunc(m[1], isC1) {
			continue
		}
		return len(m[0])
	}
	return 0
}

// TestOffence makes sure that the checker itself can tell.
func TestOffence(t *testing.T) {
	for _, s := range append(passes, passesAsking...) {
		if o := offence(s); o != "" {
			t.Errorf("%q: %q", s, o)
		}
	}
	for _, s := range []string{
		"\x05", "\x18", "\x9b", "\u009b", "\xc0\x9b", "\x1b", "\x1b[", "\x1b]0;x", "\x1bPq~", "\x1b[21t", "\x1b[5i", "\x1b[?5i",
		"\x1b[?2l", "\x1b[?25;2l", "\x1b]52;c;?\a", "\x1b]50;?\a", "\x1b]20;x\a", "\x1b]46;x\a", "\x1b]7;x\a", "\x1b]777;eval;x\a",
		"\x1b]9;7;x\a", "\x1b]1337;Copy=:x\a", "\x1b]1337;File=:QUJD\a", "\x1b]1337;ReportVariable=x\a", "\x1b_Gt=f;x\x1b\\",
		"\x1bP$qm\x1b\\", "\x1bPtmux;x\x1b\\", "\x1b[1;1;1;1;9;9*y", "\x1b%@", "\x1b]0;\u009c\a", "\x1b]2;a\x05\a", "\x1b^x\x1b\\",
	} {
		if offence(s) == "" {
			t.Errorf("%q is not found to be wrong", s)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range append(passes, passesAsking...) {
		f.Add([]byte(s), uint8(3))
	}
	for _, s := range drops {
		f.Add([]byte(s), uint8(2))
	}
	for _, c := range rewrites {
		f.Add([]byte(c.in), uint8(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, wf := run(t, Options{}, string(in))
		if o := offence(whole); o != "" {
			t.Fatalf("%q\n passes as %q\n with %q", in, whole, o)
		}
		if again, _ := run(t, Options{}, whole); again != whole {
			t.Fatalf("%q\n filtered       %q\n filtered twice %q", in, whole, again)
		}
		var pieces []string
		for rest := string(in); rest != ""; {
			n := min(len(rest), 1+int(size))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		cut, cf := run(t, Options{}, pieces...)
		if cut != whole || cf.Asked() != wf.Asked() || string(cf.Undo()) != string(wf.Undo()) {
			t.Fatalf("%q\n in one      %q %q\n cut by %d %q %q", in, whole, wf.Undo(), len(pieces), cut, cf.Undo())
		}
		// What undoes must itself be harmless, and undo all there is.
		undo := string(wf.Undo())
		if o := offence(undo); o != "" {
			t.Fatalf("%q\n undone by %q\n with %q", in, undo, o)
		}
		if _, uf := run(t, Options{}, whole, undo); len(uf.Undo()) > 0 {
			t.Fatalf("%q\n undone by %q\n leaves %q", in, undo, uf.Undo())
		}
		// Text comes through, also after anything else.
		text := strings.ToValidUTF8(strings.Map(visible, string(in)), "")
		for _, s := range []string{text, "\x1b[1;38;5;9m" + text + "\x1b[m\r\n"} {
			if got, _ := run(t, Options{}, s); got != s {
				t.Fatalf("text %q\n passes as %q", s, got)
			}
			if got, _ := run(t, Options{}, whole+s); got != whole+s {
				t.Fatalf("text %q\n after %q\n passes as %q", s, whole, got)
			}
		}
	})
}

// visible drops control characters.
func visible(r rune) rune {
	if r < 0x20 || isC1(r) {
		return -1
	}
	return r
}
