package receive

import (
	"strings"
	"testing"
)

func TestOffer(t *testing.T) {
	for name, c := range map[string]struct {
		refs []Ref
		head string
		want string
	}{
		"nothing": {nil, "", zero + " capabilities^{}\x00C\n"},
		"a tag, and no HEAD": {[]Ref{{"refs/heads/main", one, ""}, {"refs/tags/v1", two, one}}, "refs/heads/gone",
			one + " refs/heads/main\x00C\n" + two + " refs/tags/v1\n" + one + " refs/tags/v1^{}\n"},
		"HEAD": {[]Ref{{"refs/heads/a", one, ""}, {"refs/heads/main", two, ""}}, "refs/heads/main",
			two + " HEAD\x00S\n" + one + " refs/heads/a\n" + two + " refs/heads/main\n"},
	} {
		var b strings.Builder
		if err := Offer(&b, "sha1", c.refs, c.head); err != nil {
			t.Fatal(err)
		}
		got, in := "", strings.NewReader(b.String())
		for ends := 0; ends < 2; {
			text, end, err := readLine(in)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if end {
				ends++
			}
			got += text
		}
		const caps = "multi_ack_detailed thin-pack side-band-64k ofs-delta object-format=sha1"
		got = strings.TrimPrefix(got, "# service=git-upload-pack\n")
		got = strings.Replace(got, caps+" symref=HEAD:refs/heads/main agent=coffer", "S", 1)
		got = strings.Replace(got, caps+" agent=coffer", "C", 1)
		if got != c.want || in.Len() != 0 {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
