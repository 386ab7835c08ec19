package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// recordVersion is the format of this coffer. Decoding is strict, so a new field needs a new version:
// an older coffer must refuse a limit that it would not enforce. Older versions can be read.
const recordVersion = 7

// maxRecord bounds sandbox.json, for reading and for writing.
const maxRecord = 1 << 20

// A Record is what is known about a sandbox while it does not run.
type Record struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`

	// Ephemeral marks a throw-away: it goes with the process that made it.
	Ephemeral bool `json:"ephemeral,omitempty"`

	// Once marks what a single run left behind because changes wait to be
	// applied: it goes when they are settled.
	Once bool `json:"once,omitempty"`

	Workspace Workspace `json:"workspace"`
	Limits    Limits    `json:"limits,omitzero"`
	Network   Network   `json:"network,omitzero"` // since version 2
	Mounts    []Mount   `json:"mounts,omitempty"` // since version 2
	Masks     Masks     `json:"masks,omitzero"`   // since version 3

	// Nesting allows sandboxes and containers inside this one.
	Nesting bool `json:"nesting,omitempty"`
	// AllowSettings leaves settings that run code in the user's directories to the sandbox.
	AllowSettings bool `json:"allow_settings,omitempty"`
	// MadeGit says that the workspace had no .git and that we put an empty one
	// there, to be taken away again.
	MadeGit bool `json:"made_git,omitempty"`
	// Env is what the user set for the sandbox, as NAME=value; or NAME, since version
	// 3, for a variable of the user's that is passed on.
	Env []string `json:"env,omitempty"`
	// EnvFrom are variables made of the user's, as NAME=template. What these are is not
	// written down: it may be a secret.
	EnvFrom []string `json:"env_from,omitempty"` // since version 3
	// Command is what it was made for. It is shown, not run again.
	Command []string `json:"command,omitempty"`

	// Forwards and Sockets are the ways through the wall that the user made.
	Forwards []Forward `json:"forwards,omitempty"`
	Sockets  []Socket  `json:"sockets,omitempty"`

	// Profile are files of the workspace that interactive shells inside read.
	Profile []string `json:"profile,omitempty"` // since version 3, as what follows
	Daemons []Daemon `json:"daemons,omitempty"`
	// Caches are directories of the host that are filled package caches inside.
	Caches []Cache `json:"caches,omitempty"`
	// Audit says that the sandbox must not run without its log.
	Audit bool `json:"audit,omitempty"`
	// Git is what programs may have the host do with its repository.
	Git Git `json:"git,omitzero"` // since version 4
	// An Image is what the system directories are from. A sandbox stays with the image that its name stood
	// for at first.
	Image Image `json:"image,omitzero"` // since version 7
}

// An Image is what a sandbox has its system directories from. Once it is made, it stays with
// the very image that its name stood for then.
type Image struct {
	Ref    string `json:"ref"` // how the user calls it
	Digest string `json:"digest"`
	// Env are the variables that it has for programs, as NAME=value.
	Env []string `json:"env,omitempty"`
	// Shell is the one in it that the user gets; empty if it has none.
	Shell string `json:"shell,omitempty"`
}

// None says that there is no image: the system directories are the host's.
func (i Image) None() bool { return i.Digest == "" }

// Git says what a sandbox may have the host do with its repository.
type Git struct {
	Push string `json:"push,omitempty"` // allow, deny, or empty to ask
	// Patterns are branches of the remote that may be pushed to besides its own.
	Patterns []string `json:"patterns,omitempty"`
	Upstream string   `json:"upstream,omitempty"` // about fetching from the remote, as Push
	GH       string   `json:"gh,omitempty"`       // about what gh changes, likewise
	GHRead   string   `json:"gh_read,omitempty"`  // and about what it reads
	// Nested is what becomes of repositories further down: NestedOpen, or empty to lock them.
	Nested string `json:"nested,omitempty"`
	// NoSettings leaves out the user's aliases and styles: see git.SystemConfig.
	NoSettings bool `json:"no_settings,omitempty"`
}

// NestedOpen leaves repositories below the workspace to the sandbox.
const NestedOpen = "open"

// Masks are the lines that say what of the workspace is hidden, as they were when the
// user agreed to them. See package mask.
type Masks struct {
	// Prefix is the workspace's place in the repository that the lines are about.
	Prefix string `json:"prefix,omitempty"`
	Rules  []Mask `json:"rules"`
}

// A Mask is one line of a file.
type Mask struct {
	Line string `json:"line"`
	From string `json:"from"`          // the file and the line's number
	Dir  string `json:"dir,omitempty"` // the file's directory in the repository
	Own  bool   `json:"own,omitempty"` // the user's own word
}

// maxMasks is more than anybody writes.
const maxMasks = 4000

// How a sandbox sees its workspace.
const (
	WorkspaceDirect = "direct" // the host's folder itself
	WorkspaceCOW    = "cow"    // a copy-on-write view of it
	WorkspaceNone   = "none"   // nothing of the host's
	// WorkspaceTree is a git worktree of its own, in the sandbox's folder.
	WorkspaceTree = "worktree"
)

// A Workspace is the host folder that a sandbox works on.
type Workspace struct {
	Path string `json:"path,omitempty"` // absolute; empty with WorkspaceNone
	Mode string `json:"mode"`
	// Start is where in it programs start if they are asked for from elsewhere, relative
	// to Path: a worktree may be made from a directory of its repository.
	Start string `json:"start,omitempty"` // since version 5
}

// Limits bound what a sandbox may use. Zero means no limit of its own, or the usual one.
type Limits struct {
	Memory    int64         `json:"memory_bytes,omitempty"`
	Pids      int           `json:"pids,omitempty"`
	CPUs      float64       `json:"cpus,omitempty"`
	OpenFiles int           `json:"open_files,omitempty"`
	Timeout   time.Duration `json:"timeout_ns,omitempty"` // a whole run
	Idle      time.Duration `json:"idle_ns,omitempty"`    // until a sandbox nobody uses is stopped
	// KeepFree is how many bytes of a disk programs leave free; negative for none.
	KeepFree int64 `json:"keep_free_bytes,omitempty"` // since version 6
}

// ErrNewer is for a record of a newer coffer. The sandbox must not be touched.
var ErrNewer = errors.New("made by a newer coffer")

// errEmpty is for a record that a power cut emptied.
var errEmpty = errors.New("is empty")

func (r *Record) validate() error {
	if !validID(r.ID) {
		return fmt.Errorf("%q is not a sandbox id", r.ID)
	}
	if err := CheckName(r.Name); err != nil {
		return err
	}
	if r.Ephemeral && !bornEphemeral(r.ID) {
		return fmt.Errorf("sandbox %s was made to stay and cannot become a throw-away", r.ID)
	}
	l := r.Limits
	if l.Memory < 0 || l.Pids < 0 || !(l.CPUs >= 0) || l.OpenFiles < 0 || l.Timeout < 0 || l.Idle < 0 {
		return errors.New("a limit cannot be negative")
	}
	for i, v := range slices.Concat(r.Env, r.EnvFrom) {
		// The value stays out of the message: it may be a secret.
		if name, _, ok := strings.Cut(v, "="); !ok && i >= len(r.Env) || name == "" || !storable(reflect.ValueOf(v)) {
			return fmt.Errorf("environment variable %q must be NAME=value, in UTF-8, without NUL", name)
		}
	}
	for _, m := range r.Mounts {
		if err := m.validate(); err != nil {
			return err
		}
	}
	for _, c := range r.Caches {
		if err := c.validate(); err != nil {
			return err
		}
	}
	if len(r.Masks.Rules) > maxMasks {
		return fmt.Errorf("%d lines say what to hide, more than %d", len(r.Masks.Rules), maxMasks)
	}
	for _, check := range []func() error{r.Workspace.validate, r.Network.validate, r.checkForwards, r.checkSockets, r.checkDaemons} {
		if err := check(); err != nil {
			return err
		}
	}
	if !storable(reflect.ValueOf(*r)) {
		return errors.New("there is text in it that is not UTF-8, or a NUL")
	}
	return nil
}

func (w Workspace) validate() error {
	switch {
	case !slices.Contains([]string{WorkspaceDirect, WorkspaceCOW, WorkspaceNone, WorkspaceTree}, w.Mode):
		return fmt.Errorf("workspace mode %q is none of direct, cow, none, worktree", w.Mode)
	case w.Mode == WorkspaceNone && w.Path == "":
		return nil
	case w.Mode == WorkspaceNone:
		return fmt.Errorf("workspace mode none goes without a path, got %q", w.Path)
	case !filepath.IsAbs(w.Path):
		return fmt.Errorf("workspace %q is not an absolute path", w.Path)
	case w.Start != "" && !filepath.IsLocal(w.Start):
		return fmt.Errorf("%q is not a path in the workspace", w.Start)
	}
	return nil
}

// storable says whether JSON gives back the same bytes of all text in a value, and a system call
// takes them whole.
func storable(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String()) && !strings.Contains(v.String(), "\x00")
	case reflect.Struct:
		for _, f := range v.Fields() {
			if !storable(f) {
				return false
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if !storable(v.Index(i)) {
				return false
			}
		}
	}
	return true
}

func (r *Record) encode() ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // a command line has && and > in it
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	out := text.Bytes()
	if len(out) > maxRecord {
		return nil, fmt.Errorf("the record would be %d bytes, more than the %d a record may have", len(out), maxRecord)
	}
	return out, nil
}

// decodeRecord reads sandbox.json. The errors continue a sentence that begins with the file's name.
func decodeRecord(data []byte) (Record, error) {
	if len(data) == 0 {
		return Record{}, errEmpty
	}
	if len(data) > maxRecord {
		return Record{}, fmt.Errorf("is larger than %d bytes", maxRecord)
	}
	rec, err := decodeStrictly(data)
	if err != nil || rec.Version < 1 || rec.Version > recordVersion {
		return Record{}, unreadable(data, err)
	}
	if err := rec.validate(); err != nil {
		return Record{}, fmt.Errorf("is damaged: %w", err)
	}
	return rec, nil
}

// RecordID is the id in the text of a record.
func RecordID(data []byte) (string, error) {
	rec, err := decodeRecord(data)
	return rec.ID, err
}

func decodeStrictly(data []byte) (rec Record, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(&rec)
	if err == nil && len(bytes.TrimSpace(data[d.InputOffset():])) > 0 {
		err = errors.New("something follows the record")
	}
	return rec, err
}

// unreadable says why a record cannot be used: a newer one is not damaged.
func unreadable(data []byte, err error) error {
	var v struct {
		Version int `json:"version"`
	}
	switch loose := json.Unmarshal(data, &v); {
	case loose != nil:
		return fmt.Errorf("is damaged: %w", loose)
	case v.Version > recordVersion:
		return fmt.Errorf("was %w (version %d, this one knows %d)", ErrNewer, v.Version, recordVersion)
	case v.Version < 1:
		return errors.New("is damaged: no valid version")
	}
	return fmt.Errorf("is damaged: %w", err)
}
