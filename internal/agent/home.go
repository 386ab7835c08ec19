package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

// A Home is the home directory of a sandbox, as seen from the host. Programs inside may be writing
// it. Nothing here leads out of it; files that are made get its owner.
type Home struct {
	root     *os.Root
	dir      *os.File // the same
	uid, gid int
}

// OpenHome opens a home.
func OpenHome(path string) (*Home, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's home: %w", err)
	}
	dir, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	h := &Home{root: root, dir: dir}
	info, err := dir.Stat()
	if err != nil {
		h.Close()
		return nil, err
	}
	st := info.Sys().(*syscall.Stat_t)
	h.uid, h.gid = int(st.Uid), int(st.Gid)
	return h, nil
}

// Close lets go of it.
func (h *Home) Close() {
	h.dir.Close()
	h.root.Close()
}

// maxFile bounds what is read from a home.
const maxFile = 4 << 20

// Read reads a file: a regular one, through no link, of a size that one can expect.
func (h *Home) Read(name string) ([]byte, error) {
	data, err := safepath.ReadFile(h.dir, name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read ~/%s: %w", name, err)
	}
	return data, nil
}

// Has says whether there is a regular file.
func (h *Home) Has(name string) bool {
	info, err := h.root.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// Write replaces a file, by rename, and makes the directories above it.
func (h *Home) Write(name string, data []byte) error {
	if old, err := h.Read(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := h.makeDirs(path.Dir(name)); err != nil {
		return fmt.Errorf("write ~/%s in the sandbox: %w", name, err)
	}
	draft := name + ".coffer-new"
	_ = h.root.Remove(draft)
	f, err := h.root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		_, err = f.Write(data)
		if err == nil && os.Getuid() == 0 {
			err = f.Chown(h.uid, h.gid)
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = h.root.Rename(draft, name)
	}
	if err != nil {
		_ = h.root.Remove(draft)
		return fmt.Errorf("write ~/%s in the sandbox: %w", name, err)
	}
	return nil
}

func (h *Home) makeDirs(dir string) error {
	if dir == "." {
		return nil
	}
	if info, err := h.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := h.makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	err := h.root.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && os.Getuid() == 0 {
		err = h.root.Lchown(dir, h.uid, h.gid)
	}
	return err
}

// Put writes one of the files that an agent needs.
func (h *Home) Put(f File) error {
	if f.Merge == nil {
		return h.Write(f.Name, f.Content)
	}
	data, err := h.Read(f.Name)
	if err != nil {
		data = nil
	}
	was := object(data)
	if was == nil {
		was = map[string]any{} // the agent could not read it either
	}
	lay(was, f.Merge)
	return h.Write(f.Name, jsonText(was))
}

// lay changes one object so that it says what another says. A list gets what it lacks, and
// what is nil goes.
func lay(was, over map[string]any) {
	for name, v := range over {
		switch v := v.(type) {
		case nil:
			delete(was, name)
		case map[string]any:
			below, ok := was[name].(map[string]any)
			if !ok {
				below = map[string]any{}
			}
			if lay(below, v); len(below) > 0 || len(v) == 0 {
				was[name] = below
			}
		case []any:
			have, ok := was[name].([]any)
			if one, alone := was[name].(string); !ok && alone {
				have = []any{one} // as good as a list, to who reads both
			}
			for _, item := range v {
				if !holds(have, item) {
					have = append(have, item)
				}
			}
			if have == nil {
				have = []any{}
			}
			was[name] = have
		default:
			was[name] = v
		}
	}
}

func holds(list []any, item any) bool {
	return slices.ContainsFunc(list, func(have any) bool { s, ok := have.(string); return ok && s == item })
}

// maxLook bounds how many files are looked at.
const maxLook = 2000

// Talked says whether the agent has had a conversation here.
func (h *Home) Talked(a *Agent) bool {
	if a.Talks == "" {
		return false
	}
	if a.TalkIn == "" && h.Has(a.Talks) {
		return true
	}
	left := maxLook
	return h.talk(a, a.Talks, &left)
}

// talk says whether there is a file of a conversation in a directory. What was one a moment
// ago may be a pipe now, in which a reader would wait for ever.
func (h *Home) talk(a *Agent, dir string, left *int) bool {
	f, err := h.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	list, _ := f.ReadDir(*left)
	for _, d := range list {
		name := dir + "/" + d.Name()
		switch *left--; {
		case *left <= 0:
			return false
		case d.Type().IsRegular() && (a.TalkIn == "" || strings.Contains(name, "/"+a.TalkIn+"/")):
			return true
		case d.IsDir() && strings.Count(name, "/") <= 10 && h.talk(a, name, left):
			return true
		}
	}
	return false
}
