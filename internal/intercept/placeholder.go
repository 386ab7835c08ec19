package intercept

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// A placeholder is what a sandbox has in place of a secret: random, of the same length, and with
// the prefix by which programs know what kind of secret it is. Only letters and digits differ, so
// both are encoded alike wherever they are put, and one can take the other's place in a stream
// without a change of its length. The first and the last byte are kept, too: in base64 they share
// characters with what is around the secret.

const (
	maxSecret = 8 << 10
	minRandom = 12 // letters and digits of a placeholder that are random
)

// prefixes are those of well-known kinds of secrets. A longer one comes before what it begins with.
// What is not listed is not kept: the first word of a passphrase looks like a prefix.
var prefixes = []string{
	"sk-ant-admin01-", "sk-ant-api03-", "sk-ant-oat01-", "sk-ant-ort01-", "sk-ant-",
	"sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-", "sk-", "xai-", "gsk_", "hf_", "r8_", "AIza", "ya29.",
	"github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "npm_", "pypi-", "dckr_pat_",
	"xoxb-", "xoxp-", "xapp-", "sk_live_", "sk_test_", "rk_live_", "AKIA", "ASIA",
}

var errShort = fmt.Errorf("it is too short for a placeholder, which needs %d random letters and digits", minRandom)

// NewPlaceholder makes a placeholder for a secret. The error does not tell the secret.
func NewPlaceholder(value string) (string, error) {
	if err := checkValue(value); err != nil {
		return "", err
	}
	from := 1
	if segments := strings.Split(value, "."); strings.HasPrefix(value, "eyJ") && len(segments) == 3 {
		// A JSON web token says when it expires and whom it is for, which programs read. It opens
		// nothing without its signature.
		from = len(value) - len(segments[2])
	} else {
		for _, p := range prefixes {
			if strings.HasPrefix(value, p) {
				from = len(p)
				break
			}
		}
	}
	from = min(from, len(value)-1)
	to := len(value) - 1
	alphabet := alphabetOf(value[from:])
	random := 0
	out := []byte(value)
	for i := from; i < to; i++ {
		if isAlnum(out[i]) {
			out[i] = alphabet[choose(len(alphabet))]
			random++
		}
	}
	if random < minRandom {
		return "", errShort
	}
	return string(out), nil
}

// checkValue wants a value that looks alike in a header, and in a body.
func checkValue(value string) error {
	switch {
	case len(value) > maxSecret:
		return fmt.Errorf("it has more than %d bytes", maxSecret)
	case len(value) <= minRandom:
		return errShort
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '%' || c == '\\' {
			return errors.New("it has characters other than printable ASCII, or one of % and \\")
		}
	}
	return nil
}

// alphabetOf has the kinds of characters that a text has.
func alphabetOf(text string) string {
	const digits, lower, upper = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var all string
	for _, kind := range []string{digits, lower, upper} {
		if strings.ContainsAny(text, kind) {
			// Of hexadecimal digits there are only six letters.
			if kind != digits && !strings.ContainsAny(text, kind[6:]) {
				kind = kind[:6]
			}
			all += kind
		}
	}
	return all
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func choose(n int) int {
	i, _ := rand.Int(rand.Reader, big.NewInt(int64(n))) // never fails
	return int(i.Int64())
}
