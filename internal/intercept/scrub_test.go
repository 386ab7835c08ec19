package intercept

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	aSecret = "sk-ant-api03-Zx81hQm4Kd92LwPq7TnVbY3r"
	aStand  = "sk-ant-api03-00000000000000000000000r"
)

func testSwapper(t testing.TB, pairs ...pair) *swapper {
	t.Helper()
	s, err := newScrubber(pairs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Servers encode what they say in many ways.
func TestScrubEncodings(t *testing.T) {
	t.Parallel()
	value, stand := `p&ss "w0rd"/for+the=gate-1234`, `p&aa "a0aa"/aaa+aaa=aaaa-0004`
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	slashes := func(s string) string { return strings.ReplaceAll(quoted(s), "/", `\/`) }
	each := func(format string) func(string) string {
		return func(s string) (out string) {
			for i := range len(s) {
				out += fmt.Sprintf(format, s[i])
			}
			return out
		}
	}
	encodings := map[string]func(string) string{
		"plain": func(s string) string { return s }, "query": url.QueryEscape, "path": url.PathEscape,
		"json": quoted, "json with slashes": slashes, "%xx": each("%%%02x"), "%XX": each("%%%02X"), `\uxxxx`: each(`\u%04x`),
		"hex": func(s string) string { return hex.EncodeToString([]byte(s)) }, "HEX": each("%02X"),
	}
	for before := range 4 {
		for after := range 4 {
			for name, e := range map[string]*base64.Encoding{"std": base64.StdEncoding, "raw": base64.RawStdEncoding, "url": base64.URLEncoding} {
				encode := func(s string) string {
					return e.EncodeToString([]byte("user:"[:before] + s + "tail"[:after]))
				}
				encodings[fmt.Sprint("base64 ", name, before, after)] = encode
				encodings[fmt.Sprint("base64 in a query ", name, before, after)] = func(s string) string { return url.QueryEscape(encode(s)) }
				encodings[fmt.Sprint("base64 in json ", name, before, after)] = func(s string) string { return slashes(encode(s)) }
			}
		}
	}
	for _, p := range []pair{{value, stand}, {aSecret, aStand}} {
		s := testSwapper(t, p)
		for name, encode := range encodings {
			in, want := "<"+encode(p.from)+">"+encode(p.from), "<"+encode(p.to)+">"+encode(p.to)
			got, swapped := s.text(in)
			if !strings.EqualFold(got, want) || !swapped || strings.HasPrefix(name, "base64") && got != want {
				t.Errorf("%s: %q became %q, want %q", name, in, got, want)
			}
			slow, err := io.ReadAll(iotest.OneByteReader(&swapReader{swapper: s, src: iotest.OneByteReader(strings.NewReader(in))}))
			if string(slow) != got || err != nil {
				t.Errorf("%s, byte by byte: %q, want %q, %v", name, slow, got, err)
			}
		}
	}
}

// What cannot be the beginning of a secret is passed on at once.
func TestScrubKeepsLittle(t *testing.T) {
	t.Parallel()
	s := testSwapper(t, pair{aSecret, aStand})
	for text, kept := range map[string]int{
		"data: {}\n\n": 0, "data: s": 1, "data: sk-ant-api03-Zx81": 17, "sk-ant-api03-Zx82": 0, "%": 1, "%7": 2, "x%7g": 0,
		`\n`: 0, `\u00`: 4, `data: \u0073%6B-`: 10, aSecret: 0, aSecret + "s": 1,
	} {
		if done, _ := s.swap([]byte(text), false); done != len(text)-kept {
			t.Errorf("%q: %d bytes are kept, want %d", text, len(text)-done, kept)
		}
	}
	// The end is not a way to get the first part.
	got, _ := s.text("x" + aSecret[:len(aSecret)-1])
	if got != "x"+aStand[:len(aStand)-1] {
		t.Errorf("cut off: %q", got)
	}
	// In the other direction, it would be: the response has no whole secret to scrub.
	in, err := newSwapper([]pair{{aStand, aSecret}})
	if err != nil {
		t.Fatal(err)
	}
	if got, swapped := in.text("x" + aStand[:len(aStand)-1]); got != "x"+aStand[:len(aStand)-1] || swapped {
		t.Errorf("a part of the placeholder became %q", got)
	}
}

func TestSwapperShapes(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{{aSecret, aStand[1:]}, {aSecret, "x" + aStand[1:]}, {aSecret, aStand[:len(aStand)-1] + "x"}, {"short", "shirt"}, {aSecret, strings.ReplaceAll(aStand, "-", "+")}} {
		if _, err := newSwapper([]pair{p}); err == nil {
			t.Errorf("%q for %q is taken", p.to, p.from)
		}
	}
}

// naive does what swap does, as one would write it down.
func naive(s *swapper, text []byte) []byte {
	at := 0
	cut := 0
	for at < len(text) {
		best, length := -1, 0
		for i, n := range s.needles {
			if l, _ := n.match(text[at:]); l > length {
				best, length = i, l
			}
		}
		if at++; best >= 0 {
			s.needles[best].put(text[at-1:], len(s.needles[best].from))
			at += length - 1
			cut = at
		}
	}
	for ; cut < len(text); cut++ {
		for _, n := range s.needles {
			if l, units := n.match(text[cut:]); l < 0 && units >= minCutOff {
				n.put(text[cut:], units)
				return text
			}
		}
	}
	return text
}

// FuzzScrub compares with the naive scrubber, whatever the pieces that a stream comes in.
func FuzzScrub(f *testing.F) {
	for _, text := range []string{
		aSecret, "abaabaabaabaabaa", "abaabaabaababaabaabaabaa%61b", `\u0061b%61`, url.QueryEscape(aSecret[:20]),
		base64.StdEncoding.EncodeToString([]byte("u:abaabaabaabaabaa")), hex.EncodeToString([]byte(aSecret)), "%61baab\\u0061a", "aab aab+aab%20aab aab",
	} {
		f.Add([]byte(text+text[:len(text)/2]), uint64(len(text)))
	}
	// Texts that begin with themselves and with each other are the hard ones.
	s := testSwapper(f, pair{aSecret, aStand}, pair{"abaabaabaabaabaa", "a0aa0aa0aa0aa0aa"}, pair{"abaabaabaabaabaabaabaa", "acaacaacaacaacaacaacaa"}, pair{"aab aab aab aab aab", "aac aac aac aac aab"})
	// Bytes that are not ASCII stand for parts of needles, some of them escaped.
	tokens := []string{"aab", "abaabaa", "aab ", "%61", "%61ab", `\u0061`, "a%62", "%6", `\u00`, "%", aSecret, aSecret[:20], aSecret[20:], "%73%6b-", "aab+"}
	for _, n := range s.needles {
		tokens = append(tokens, string(n.from), string(n.from[:len(n.from)/2]), string(n.from[len(n.from)/2:]))
	}
	f.Add([]byte{0x80, 0x81, 0x83, 0x84, 0x80, 0x85, 0x90, 0x91, 0xa0, 0xa1, 0xff}, uint64(1))
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		var text []byte
		for _, c := range input[:min(len(input), 1000)] {
			if c < 0x80 {
				text = append(text, c)
			} else {
				text = append(text, tokens[int(c-0x80)%len(tokens)]...)
			}
		}
		want := naive(s, bytes.Clone(text))
		got, err := io.ReadAll(&swapReader{swapper: s, src: &pieces{text, rand.New(rand.NewPCG(seed, 1))}})
		if !bytes.Equal(got, want) || err != nil {
			t.Errorf("%q became %q, want %q, %v", text, got, want, err)
		}
		if whole, _ := s.text(string(text)); whole != string(want) {
			t.Errorf("%q at once became %q, want %q", text, whole, want)
		}
	})
}

// pieces is a reader of pieces of any size.
type pieces struct {
	text []byte
	rand *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.text[:1+p.rand.IntN(min(len(p.text), 40))])
	p.text = p.text[n:]
	return n, nil
}

func BenchmarkScrub(b *testing.B) {
	var pairs []pair
	for i := range 5 {
		pairs = append(pairs, pair{fmt.Sprintf("%s%d%s", aSecret[:20], i, aSecret[20:]), fmt.Sprintf("%s%d%s", aStand[:20], i, aStand[20:])})
	}
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	texts := map[string][]byte{
		"json":   bytes.Repeat([]byte("data: {\"type\":\"delta\",\"text\":\"He said:\\n\\\"some words\\\" and more\\n\"}\n\n"), 1<<20/72),
		"random": random, "base64": []byte(base64.StdEncoding.EncodeToString(random)), "percent": []byte(strings.Repeat("%41%6b-%c3", 1<<17)),
	}
	for name, text := range texts {
		for _, n := range []int{1, 5} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				s := testSwapper(b, pairs[:n]...)
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					r := &swapReader{swapper: s, src: bytes.NewReader(text)}
					if _, err := io.Copy(io.Discard, struct{ io.Reader }{r}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
