package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// Where the administrator requires an audit log, a sandbox does not start without one, and
// the log stays when the sandbox goes: with its record, in a store of its own beside the
// sandboxes. A throw-away's is no exception.

// keepName is the file that says that the log of a sandbox is to be kept.
const keepName = "keep-audit"

// KeptStore is where logs of sandboxes that are gone are, for a store of sandboxes.
func KeptStore(store string) string { return filepath.Join(filepath.Dir(store), "kept") }

// requireAudit marks the log of a sandbox that must have one as one to keep.
func (s *Supervisor) requireAudit() error {
	sb := s.Sandbox
	if !sb.Audit {
		return nil
	}
	if err := os.WriteFile(filepath.Join(sb.Dir(), keepName), nil, 0o600); err != nil {
		return fmt.Errorf("the administrator requires an audit log, which cannot be kept: %w", err)
	}
	return nil
}

// KeepAudit puts aside the log of a sandbox that is about to be deleted, if it is to be
// kept. tree is the sandbox's folder, under whatever name, in its store.
func KeepAudit(tree string) error {
	if _, err := os.Lstat(filepath.Join(tree, keepName)); err != nil {
		return nil
	}
	record, err := os.ReadFile(filepath.Join(tree, "sandbox.json"))
	if err != nil {
		return fmt.Errorf("keep the audit log: %w", err)
	}
	id, err := sandbox.RecordID(record)
	if err != nil {
		return fmt.Errorf("keep the audit log: %w", err)
	}
	to := filepath.Join(KeptStore(filepath.Dir(tree)), id)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("keep the audit log: %w", err)
	}
	err = os.WriteFile(filepath.Join(to, "sandbox.json"), record, 0o600)
	if err == nil {
		err = os.Rename(audit.Dir(tree), audit.Dir(to))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the audit log: %w", err)
	}
	return nil
}
