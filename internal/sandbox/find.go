package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/terminal"
)

// ErrNotFound is for a sandbox that does not exist, or no longer.
var ErrNotFound = errors.New("no such sandbox")

// A BrokenError is a folder in the store whose record cannot be used. The store leaves it alone.
type BrokenError struct {
	ID  string // the folder's name
	Dir string
	Err error
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("sandbox %s: %s %v", terminal.Escape(e.ID), terminal.Escape(filepath.Join(e.Dir, recordName)), e.Err)
}

// Hint says what to do with it.
func (e *BrokenError) Hint() string {
	if errors.Is(e.Err, ErrNewer) {
		return "update coffer"
	}
	return "restore the file, or remove the folder to give the sandbox up"
}

func (e *BrokenError) Unwrap() error { return e.Err }

// An AmbiguousError is for a text that could mean several sandboxes.
type AmbiguousError struct {
	Match      string
	Candidates []*Sandbox
}

func (e *AmbiguousError) Error() string {
	width := 0
	for _, sb := range e.Candidates {
		width = max(width, len(sb.Name))
	}
	var names []string
	for _, sb := range e.Candidates {
		names = append(names, fmt.Sprintf("\n  %s  %-*s  %s", sb.ID, width, sb.Name, cmp.Or(terminal.Escape(sb.Workspace.Path), "(no workspace)")))
	}
	return fmt.Sprintf("%q could be any of %d sandboxes:%s", e.Match, len(names), strings.Join(names, ""))
}

// Hint says how to mean one of them.
func (e *AmbiguousError) Hint() string { return "write the whole name, or the id" }

// Get returns the sandbox with exactly this id.
func (s *Store) Get(id string) (*Sandbox, error) {
	if !validID(id) {
		return nil, fmt.Errorf("%w: %q is not an id", ErrNotFound, id)
	}
	sb, err := s.load(id)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%w: %s", err, id)
	}
	return sb, err
}

// List returns all sandboxes, the oldest first, and next to them an error for
// each that cannot be read: a broken one never hides the healthy ones.
func (s *Store) List() (all []*Sandbox, errs []error) {
	entries, err := s.entries()
	if err != nil {
		return nil, []error{err}
	}
	for _, name := range entries {
		if name[0] == '.' {
			continue
		}
		sb, err := s.load(name)
		switch {
		case errors.Is(err, ErrNotFound): // removed while we looked
		case err != nil:
			errs = append(errs, err)
		default:
			all = append(all, sb)
		}
	}
	slices.SortStableFunc(all, func(a, b *Sandbox) int { return a.Created.Compare(b.Created) })
	return all, errs
}

// Over returns the sandboxes whose workspace is this directory, the oldest first.
func (s *Store) Over(workspace string) []*Sandbox {
	all, _ := s.List()
	return slices.DeleteFunc(all, func(sb *Sandbox) bool { return sb.Workspace.Path != workspace })
}

// Find returns the sandbox with this id, else with this name, else with an id that begins so, else
// with a name that contains it. What is exact comes first, so that a name always reaches its sandbox.
// The error is ErrNotFound, or an *AmbiguousError for several on the same level.
func (s *Store) Find(match string) (*Sandbox, error) {
	if validID(match) {
		if sb, err := s.Get(match); !errors.Is(err, ErrNotFound) {
			return sb, err
		}
	}
	all, errs := s.List()
	levels := []func(*Sandbox) bool{
		func(sb *Sandbox) bool { return sb.Name == match },
		func(sb *Sandbox) bool { return strings.HasPrefix(sb.ID, match) },
		func(sb *Sandbox) bool { return strings.Contains(sb.Name, match) },
	}
	if match == "" {
		levels = nil // it is contained in everything and means nothing
	}
	for _, means := range levels {
		var hits []*Sandbox
		for _, sb := range all {
			if means(sb) {
				hits = append(hits, sb)
			}
		}
		switch len(hits) {
		case 0:
		case 1:
			return hits[0], nil
		default:
			return nil, &AmbiguousError{Match: match, Candidates: hits}
		}
	}
	return nil, notFound(match, errs)
}

// notFound prefers the reason why a sandbox could not be read.
func notFound(match string, errs []error) error {
	for _, err := range errs {
		var broken *BrokenError
		if !errors.As(err, &broken) || match != "" && strings.HasPrefix(broken.ID, match) {
			return err
		}
	}
	err := fmt.Errorf("%w: %q", ErrNotFound, match)
	if len(errs) > 0 {
		err = fmt.Errorf("%w (%d could not be read)", err, len(errs))
	}
	return err
}
