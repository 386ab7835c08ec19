package agent

import "bytes"

// StripComments makes JSON of JSON as people write it, with comments and with commas before
// closing brackets. What is none is none afterwards, too.
func StripComments(in []byte) []byte {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		switch {
		case in[i] == '"':
			end := endOfText(in, i)
			out = append(out, in[i:end]...)
			i = end
		case bytes.HasPrefix(in[i:], []byte("//")):
			for i < len(in) && in[i] != '\n' {
				i++
			}
		case bytes.HasPrefix(in[i:], []byte("/*")):
			end := bytes.Index(in[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			i += 2 + end + 2
			out = append(out, ' ')
		case in[i] == '}' || in[i] == ']':
			out = append(trimComma(out), in[i])
			i++
		default:
			out = append(out, in[i])
			i++
		}
	}
	return out
}

// endOfText is where the text ends that begins at i.
func endOfText(in []byte, i int) int {
	for i++; i < len(in) && in[i] != '"'; i++ {
		if in[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(in))
}

// trimComma takes a comma off the end, and the space after it.
func trimComma(b []byte) []byte {
	if rest, ok := bytes.CutSuffix(bytes.TrimRight(b, " \t\r\n"), []byte(",")); ok {
		return rest
	}
	return b
}
