package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/ui"
)

// keepAuditName marks a sandbox whose log the administrator requires: it is kept when the sandbox
// is removed, with the record, in a store of its own beside the sandboxes.
const keepAuditName = "keep-audit"

// KeptStore is where the logs of removed sandboxes are, for a store of sandboxes.
func KeptStore(store string) string { return filepath.Join(filepath.Dir(store), "kept") }

// OpenLog opens the sandbox's audit log. What cannot be logged must not happen: without its log
// a sandbox does not start.
func (sb *Sandbox) OpenLog() (*audit.Log, error) {
	dir := audit.Dir(sb.Dir())
	log, err := (audit.Options{Throwaway: sb.Ephemeral && !sb.Audit}).Open(dir)
	if err == nil && sb.Audit {
		if err = os.WriteFile(filepath.Join(sb.Dir(), keepAuditName), nil, 0o600); err != nil {
			log.Close()
		}
	}
	if err != nil {
		if sb.Audit {
			err = fmt.Errorf("the administrator requires an audit log: %w", err)
		}
		return nil, ui.Hint(err, "a sandbox runs only with its log: free space, or repair or move away %s", dir)
	}
	return log, nil
}

// LogOnce logs events of a sandbox that does not run. The caller holds its lock.
func (sb *Sandbox) LogOnce(events ...audit.Event) error {
	log, err := sb.OpenLog()
	if err != nil {
		return err
	}
	for _, e := range events {
		log.Add(e)
	}
	return log.Close()
}

// KeepAudit moves the log of a sandbox that is about to be removed to the kept store, if it is to
// be kept. tree is the sandbox's folder, under whatever name, in its store.
func KeepAudit(tree string) error {
	if _, err := os.Lstat(filepath.Join(tree, keepAuditName)); err != nil {
		return nil
	}
	if err := keepAudit(tree); err != nil {
		return fmt.Errorf("keep the audit log: %w", err)
	}
	return nil
}

func keepAudit(tree string) error {
	record, err := os.ReadFile(filepath.Join(tree, "sandbox.json"))
	if err != nil {
		return err
	}
	id, err := RecordID(record)
	if err != nil {
		return err
	}
	to := filepath.Join(KeptStore(filepath.Dir(tree)), id)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "sandbox.json"), record, 0o600); err != nil {
		return err
	}
	if err := os.Rename(audit.Dir(tree), audit.Dir(to)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Fleeting says whether the sandbox is gone when its program has ended: advice must be for the
// next one.
func (r *Record) Fleeting() bool { return r.Ephemeral || r.Once }

// Upper is the layer that takes writes to a copy-on-write workspace; empty in other modes.
func (sb *Sandbox) Upper() string {
	if sb.Workspace.Mode != WorkspaceCOW {
		return ""
	}
	return filepath.Join(sb.Layers(), "workspace", "upper")
}
