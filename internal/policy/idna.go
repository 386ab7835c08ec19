package policy

import (
	"errors"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// lookup turns Unicode to what programs ask DNS for: the rules of today's browsers.
// What is wrong with the result is found by checkName, which knows underscores.
var lookup = sync.OnceValue(func() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.StrictDomainName(false))
})

// toASCII turns a name to lower case, and from Unicode to its xn-- form. On the wire
// every name is ASCII already, and then any xn-- label is as good as another: what it
// stands for is between the client and DNS.
func toASCII(name string) (string, error) {
	for i := range len(name) {
		if name[i] < utf8.RuneSelf {
			continue
		}
		ascii, err := lookup().ToASCII(name)
		if err != nil || !utf8.ValidString(name) {
			return "", errors.New("has characters that no name can have, or not in this order")
		}
		return ascii, nil
	}
	return strings.ToLower(name), nil
}
