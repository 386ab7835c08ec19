package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/safepath"
)

// given is what each file of credentials in a sandbox was when it was last given to it, or taken from
// it: by its name, the hash of it. A copy that is still so was not renewed there. If the store has
// another one, that is newer, and not to be replaced. It is in the sandbox's folder, out of its reach.
type given map[string]string

const givenName = "credentials.json"

// readGiven reads it. Without one, or with one that is damaged, nothing is known, and what is
// different in a sandbox counts as renewed.
func readGiven(dir string) given {
	g := given{}
	if data, err := os.ReadFile(filepath.Join(dir, givenName)); err == nil && json.Unmarshal(data, &g) == nil && g != nil {
		return g
	}
	return given{}
}

func (g given) write(dir string) error {
	return safepath.File{Path: filepath.Join(dir, givenName)}.Write(jsonText(g))
}

func (g given) note(name string, data []byte) { g[name] = sum(data) }

func (g given) untouched(name string, data []byte) bool { return g[name] == sum(data) }

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
