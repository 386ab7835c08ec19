package agent

import (
	"bytes"
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
		if _, unusable := credential(is); unusable == nil && before.untouched(c.Name, data) {
			g[c.Name] = before[c.Name]
			continue
		}
		if err == nil {
			err = h.Write(c.Name, data)
		}
		if err != nil {
			return fmt.Errorf("give %s its credentials: %w", a.Name, err)
		}
		g.note(c.Name, data)
	}
	if maps.Equal(g, before) {
		return nil
	}
	return g.write(folder)
}

// maxCredential bounds a file of credentials.
const maxCredential = 256 << 10

// Keep takes the credentials of a home into the store, because the user said so. It
// returns how many files there were.
func (s *Store) Keep(a *Agent, h *Home) (n int, err error) {
	for _, c := range a.Credentials {
		data, err := h.Read(c.Name)
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
			return n, fmt.Errorf("keep ~/%s: %w", c.Name, err)
		}
		n++
	}
	return n, nil
}

// take takes tokens that an agent has renewed from its home into the store, and notes that. What
// it was given and is as it was gets what the store has by now. What is not plainly the same credentials with other
// tokens stays where it is: a sandbox must not choose who the others are. It says what it has done,
// and what it has refused.
func (s *Store) take(a *Agent, h *Home, g given) (renewed bool, err error) {
	for _, c := range a.Credentials {
		file := s.file(a, c)
		was, readErr := os.ReadFile(file)
		if readErr != nil {
			continue // nobody logged in outside, so nobody asked for it to be kept
		}
		is, why := h.Read(c.Name)
		if errors.Is(why, fs.ErrNotExist) || why == nil && bytes.Equal(was, is) {
			continue
		}
		if why == nil && g.untouched(c.Name, is) {
			// Another sandbox has renewed it, or the user has logged in anew.
			if why = h.Write(c.Name, was); why == nil {
				g.note(c.Name, was)
			} else {
				err = errors.Join(err, why)
			}
			continue
		}
		ok := false
		if why == nil {
			ok, why = s.renew(file, c, was, is)
		}
		if ok {
			g.note(c.Name, is)
		}
		renewed = renewed || ok
		if why != nil {
			err = errors.Join(err, fmt.Errorf("~/%s is not taken for other sandboxes: %w", c.Name, why))
		}
	}
	return renewed, err
}

func (s *Store) renew(file string, c Credential, was, is []byte) (bool, error) {
	old, err := credential(was)
	if err != nil {
		return false, err
	}
	new, err := credential(is)
	if err != nil {
		return false, err
	}
	if err := alike(old, new, ""); err != nil {
		return false, err
	}
	for _, name := range c.Same {
		if !reflect.DeepEqual(lookup(old, name), lookup(new, name)) {
			return false, fmt.Errorf("%s has changed", name)
		}
	}
	return true, s.put(file, is)
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

// alike says how two values differ in shape: names, and kinds of values.
func alike(old, new any, at string) error {
	a, isObject := old.(map[string]any)
	b, stillObject := new.(map[string]any)
	switch {
	case isObject && stillObject:
		for name := range b {
			if _, ok := a[name]; !ok {
				return fmt.Errorf("%s%s is new", at, short(name))
			}
		}
		for name, v := range a {
			if _, ok := b[name]; !ok {
				return fmt.Errorf("%s%s is missing", at, short(name))
			}
			if err := alike(v, b[name], at+short(name)+"."); err != nil {
				return err
			}
		}
		return nil
	case old == nil || new == nil:
		return nil // a value that was, or is, not known
	case reflect.TypeOf(old) != reflect.TypeOf(new):
		return fmt.Errorf("%s is of another kind", strings.TrimSuffix(at, "."))
	}
	return nil
}

// short is a name in a message. It comes from a sandbox.
func short(name string) string {
	if len(name) > 40 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return "a name"
	}
	return name
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

// openOutside opens what the user has himself. A directory that is not in its usual place may
// be in a workspace, where a link can be a sandbox's: so there must be none.
func openOutside(file string, moved bool) (*os.File, error) {
	if !moved {
		return os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	f, err := openPlain(file)
	if errors.Is(err, syscall.ELOOP) {
		return nil, ui.Error("there is a link on the way to it", "set the variable that leads there to its real path")
	}
	return f, err
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
	for _, c := range a.Credentials {
		file, moved := a.outside(c, h)
		f, err := openOutside(file, moved)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(f, maxCredential+1))
			f.Close()
		}
		if err == nil {
			_, err = credential(data)
		}
		if err == nil {
			err = s.put(s.file(a, c), data)
		}
		if err != nil {
			return n, fmt.Errorf("import %s: %w", file, err)
		}
		n++
	}
	return n, nil
}
