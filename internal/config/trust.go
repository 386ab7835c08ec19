package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// Trust is a directory of yeses. Each is a file named after the hash of what was agreed
// to: the repository's path and the list of widenings, word for word. Another list, or
// the same in another place, is another question.
type Trust struct{ dir string }

// A Grant is one yes.
type Grant struct {
	Version    int       `json:"version"`
	Repository string    `json:"repository"`
	Widens     []string  `json:"widens"`
	Given      time.Time `json:"given"`
	// Files are those further down that the yes is for, by their content.
	Files []NestedFile `json:"files,omitempty"`
}

// maxGrant bounds a file of the directory.
const maxGrant = 1 << 20

// TrustStore is where this user's yeses are.
// One that programs in the sandbox could write to would be worth nothing.
func (p Places) TrustStore() (Trust, error) {
	if holds(p.Dir, p.Trust) != "" {
		return Trust{}, ui.Error(fmt.Sprintf("what you agree to is kept in %s, which is in the workspace: programs could agree to it themselves", realPlace(p.Trust)),
			"use --trust for each run, or set XDG_STATE_HOME to another directory")
	}
	return Trust{p.Trust}, nil
}

// hash is of everything that was agreed to, written so that no two lists look the same.
func hash(repository string, widens []string) string {
	text, _ := json.Marshal(append([]string{repository}, widens...)) // strings always can be
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Has says whether the user has agreed to exactly this.
func (t Trust) Has(repository string, widens []string) (bool, error) {
	g, err := t.read(hash(repository, widens) + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// The name says it all, but a file that was put there by mistake says otherwise.
	return hash(g.Repository, g.Widens) == hash(repository, widens), nil
}

// Add remembers a yes.
func (t Trust) Add(repository string, widens []string) error {
	return t.write(hash(repository, widens)+".json", Grant{Repository: repository, Widens: widens})
}

func (t Trust) write(name string, g Grant) error {
	g.Version, g.Given = 1, time.Now().UTC().Truncate(time.Second)
	data, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return fmt.Errorf("remember your answer: %w", err)
	}
	if err := (safepath.File{Path: filepath.Join(t.dir, name), Synced: true}).Write(append(data, '\n')); err != nil {
		return fmt.Errorf("remember your answer: %w", err)
	}
	return nil
}

// List returns all yeses, the oldest first.
func (t Trust) List() ([]Grant, error) {
	files, err := t.files()
	var list []Grant
	for _, name := range files {
		g, err := t.read(name)
		if err != nil {
			return list, err
		}
		list = append(list, g)
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].Given.Before(list[j].Given) })
	return list, err
}

// Revoke takes back the yeses for a repository, or all of them if it is "".
func (t Trust) Revoke(repository string) (n int, err error) {
	files, err := t.files()
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		if g, err := t.read(name); repository != "" && (err != nil || g.Repository != repository) {
			continue
		}
		if err := os.Remove(filepath.Join(t.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		n++
	}
	return n, nil
}

func (t Trust) files() (names []string, err error) {
	all, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range all {
		if strings.HasSuffix(f.Name(), ".json") {
			names = append(names, f.Name())
		}
	}
	return names, err
}

func (t Trust) read(name string) (g Grant, err error) {
	// A link could lead to where programs write, and a pipe would keep us waiting.
	f, err := os.OpenFile(filepath.Join(t.dir, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return g, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGrant))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err == nil && g.Version != 1 {
		err = fmt.Errorf("has version %d, which this coffer does not know", g.Version)
	}
	if err != nil {
		return g, fmt.Errorf("read what you agreed to: %s: %w", f.Name(), err)
	}
	return g, nil
}
