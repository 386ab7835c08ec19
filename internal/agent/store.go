package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Store keeps the credentials of agents, on the host, where no sandbox sees them. Each
// agent has a directory, which mirrors the home as far as credentials go.
type Store struct{ dir string }

// OpenStore is the store in a directory, which is made when there is something to keep.
func OpenStore(dir string) *Store { return &Store{dir} }

func (s *Store) file(a *Agent, c Credential) string {
	return filepath.Join(s.dir, a.Name, filepath.FromSlash(c.Name))
}

// LoggedIn says since when the store has all that the agent needs, false if it has not.
func (s *Store) LoggedIn(a *Agent) (since time.Time, ok bool) {
	for _, c := range a.Credentials {
		info, err := os.Lstat(s.file(a, c))
		if err != nil && c.Optional {
			continue
		}
		if err != nil || !info.Mode().IsRegular() {
			return since, false
		}
		if info.ModTime().After(since) {
			since = info.ModTime()
		}
		ok = true
	}
	return since, ok
}

// Forget removes what is known of an agent.
func (s *Store) Forget(a *Agent) error { return os.RemoveAll(filepath.Join(s.dir, a.Name)) }

// Seed copies the credentials into the home of a sandbox, and notes in its folder what it gave.
// What differs there, while the store has what was given before, was refused by take, and stays:
// it may be the user's only valid login.
func (s *Store) Seed(a *Agent, h *Home, folder string) error {
	g, before := given{}, readGiven(folder)
	for _, c := range a.Credentials {
		data, err := os.ReadFile(s.file(a, c))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		is, _ := h.Read(c.Name)
		if _, unusable := credential(is); unusable == nil && before[c.Name] == sum(data) {
			g[c.Name] = before[c.Name]
			continue
		}
		if err == nil {
			err = h.Write(c.Name, data)
		}
		if err != nil {
			return fmt.Errorf("give %s its credentials: %w", a.Name, err)
		}
		g[c.Name] = sum(data)
	}
	if maps.Equal(g, before) {
		return nil
	}
	return g.write(folder)
}

// given is what each file of credentials in a sandbox was, as a hash by its name, when it was last
// given to it or taken from it. A copy that is still so was not renewed there. It is in the
// sandbox's folder, out of its reach.
type given map[string]string

const givenName = "credentials.json"

// readGiven reads it. Without one, or with a damaged one, what differs counts as renewed.
func readGiven(dir string) given {
	g := given{}
	if data, err := os.ReadFile(filepath.Join(dir, givenName)); err != nil || json.Unmarshal(data, &g) != nil || g == nil {
		return given{}
	}
	return g
}

func (g given) write(dir string) error {
	return safepath.File{Path: filepath.Join(dir, givenName)}.Write(jsonText(g))
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// maxCredential bounds a file of credentials.
const maxCredential = 256 << 10

// Keep takes the credentials of a home into the store, because the user said so. It
// returns how many files there were.
func (s *Store) Keep(a *Agent, h *Home) (n int, err error) {
	return s.adopt(a, func(c Credential) ([]byte, string, error) {
		data, err := h.Read(c.Name)
		return data, "keep ~/" + c.Name, err
	})
}

// adopt takes credentials into the store. read returns a file, and what is done with it.
func (s *Store) adopt(a *Agent, read func(Credential) ([]byte, string, error)) (n int, err error) {
	for _, c := range a.Credentials {
		data, what, err := read(c)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = credential(data)
		}
		if err == nil {
			err = s.put(s.file(a, c), data)
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", what, err)
		}
		n++
	}
	return n, nil
}

// take takes tokens that an agent has renewed from its home into the store, and notes them in g.
// A copy that is as it was given gets what the store has by now. It reports what it has taken, and
// why it has refused something: a sandbox must not choose who the others are.
func (s *Store) take(a *Agent, h *Home, g given) (renewed bool, err error) {
	for _, c := range a.Credentials {
		was, readErr := os.ReadFile(s.file(a, c))
		if readErr != nil {
			continue // nobody logged in outside, so nobody asked for it to be kept
		}
		is, why := h.Read(c.Name)
		if errors.Is(why, fs.ErrNotExist) || why == nil && bytes.Equal(was, is) {
			continue
		}
		if why == nil && g[c.Name] == sum(is) {
			// Another sandbox has renewed it, or the user has logged in anew.
			if now, why := c.refresh(is, was); why == nil {
				was = now
			}
			if why = h.Write(c.Name, was); why == nil {
				g[c.Name] = sum(was)
			}
			err = errors.Join(err, why)
			continue
		}
		var now []byte
		if why == nil {
			now, why = c.refresh(was, is)
		}
		if why == nil && !bytes.Equal(now, was) {
			if why = s.put(s.file(a, c), now); why == nil {
				g[c.Name], renewed = sum(is), true
			}
		}
		if why != nil {
			err = errors.Join(err, fmt.Errorf("~/%s is not taken for other sandboxes: %w", c.Name, why))
		}
	}
	return renewed, err
}

// tokenNames are what tokens, and when they expire, are called by an agent of which nothing is
// known: at the top of the file, or one object further down.
var tokenNames = strings.Fields("token access refresh access_token refresh_token id_token accessToken refreshToken idToken expires expires_at expires_in expiresAt expiry expiry_date last_refresh")

// refresh returns a file of credentials with the tokens of another. Nothing else is taken: no
// further entry, no key, no entry of another type. It is the file itself if no token differs.
func (c Credential) refresh(file, with []byte) ([]byte, error) {
	was, err := credential(file)
	if err != nil {
		return nil, err
	}
	is, err := credential(with)
	if err != nil {
		return nil, err
	}
	for _, name := range c.Same {
		if !reflect.DeepEqual(lookup(was, name), lookup(is, name)) {
			return nil, fmt.Errorf("%s has changed", name)
		}
	}
	changed := false
	for _, path := range c.Tokens {
		if err := renew(was, is, strings.Split(path, "."), &changed); err != nil {
			return nil, err
		}
	}
	for _, name := range tokenNames {
		if c.Tokens == nil {
			if err := errors.Join(renew(was, is, []string{name}, &changed), renew(was, is, []string{"*", name}, &changed)); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case !changed:
		return file, nil
	case reflect.DeepEqual(was, is):
		return with, nil
	}
	return jsonText(was), nil
}

// renew takes over the value at a path, in which * stands for any name.
func renew(was, is map[string]any, path []string, changed *bool) error {
	if _, typed := was["type"]; typed || is["type"] != nil {
		a, _ := was["type"].(string)
		if b, _ := is["type"].(string); a != "oauth" || b != "oauth" {
			return nil // an API key, or another kind of login
		}
	}
	name := path[0]
	if len(path) > 1 {
		for at := range was {
			a, ok1 := was[at].(map[string]any)
			b, ok2 := is[at].(map[string]any)
			if (at == name || name == "*") && ok1 && ok2 {
				if err := renew(a, b, path[1:], changed); err != nil {
					return err
				}
			}
		}
		return nil
	}
	old, known := was[name]
	new, there := is[name]
	switch {
	case !known || !there || reflect.DeepEqual(old, new):
		return nil
	case !isToken(new) || old != nil && reflect.TypeOf(old) != reflect.TypeOf(new):
		return fmt.Errorf("%s is not a token", name)
	}
	was[name], *changed = new, true
	return nil
}

// isToken reports whether a value has the alphabet and length of a token or a time. A program that
// reads it must find nothing to run in it.
func isToken(v any) bool {
	if n, ok := v.(json.Number); ok {
		return len(n) < 32
	}
	s, ok := v.(string)
	return ok && s != "" && len(s) <= 16<<10 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~+/=|:;,%@-") == ""
}

// credential is an object of JSON, and not large.
func credential(data []byte) (v map[string]any, err error) {
	if len(data) > maxCredential {
		return nil, fmt.Errorf("it is larger than %d bytes", maxCredential)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("it is not JSON")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON")
	}
	if len(v) == 0 {
		return nil, errors.New("there is nothing in it")
	}
	return v, nil
}

func lookup(v any, dotted string) any {
	for name := range strings.SplitSeq(dotted, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// put replaces a file of the store. One of two who do so at the same time is the last.
func (s *Store) put(file string, data []byte) error {
	if err := safepath.Directory(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return safepath.File{Path: file, Synced: true}.Write(data)
}

// outside is where the user has a credential himself: in his home, unless his environment
// says that the agent's directory is elsewhere.
func (a *Agent) outside(c Credential, h Host) (file string, moved bool) {
	usual := filepath.Join(h.Home, c.Name)
	rest, ok := strings.CutPrefix(c.Name, a.Dir+"/")
	dir := h.Variable(a.DirVar)
	if !ok || a.DirVar == "" || !filepath.IsAbs(dir) || filepath.Join(dir, rest) == usual {
		return usual, false
	}
	return filepath.Join(dir, rest), true
}

// readOutside reads what the user has. A directory that is not in its usual place may be in a
// workspace, where a link can be a sandbox's: so there must be none.
func readOutside(file string, moved bool) ([]byte, error) {
	if !moved {
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return nil, err
		}
		return safepath.ReadOwn(real, maxCredential)
	}
	root, err := safepath.OpenDir("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := safepath.ReadFile(root, strings.TrimPrefix(filepath.Clean(file), "/"), maxCredential)
	if errors.Is(err, syscall.ELOOP) {
		return nil, ui.Error("there is a link on the way to it", "set the variable that leads there to its real path")
	}
	return data, err
}

// Imports says which files of an agent's credentials the user has outside.
func Imports(a *Agent, h Host) (files []string) {
	for _, c := range a.Credentials {
		file, _ := a.outside(c, h)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files
}

// Import takes the credentials that the user has outside into the store.
func (s *Store) Import(a *Agent, h Host) (n int, err error) {
	return s.adopt(a, func(c Credential) ([]byte, string, error) {
		file, moved := a.outside(c, h)
		data, err := readOutside(file, moved)
		return data, "import " + file, err
	})
}
