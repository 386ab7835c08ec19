package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// suggestSetup says, once per project, how to have a setup: the workspace has a lock file
// and nothing installed.
func suggestSetup(sb *sandbox.Sandbox) {
	if sb.Workspace.Path == "" || sb.Workspace.Mode == sandbox.WorkspaceNone {
		return
	}
	one, missing := config.MissingInstall(sb.Workspace.Path)
	if !missing || !firstTime("setup") {
		return
	}
	fmt.Fprintf(os.Stderr, "coffer: there is a %s but no %s: 'coffer ai' and 'coffer exec --create' run .coffer/setup.sh once in each new sandbox, so put '%s' there\n",
		one.Lock, one.Dir, one.Command)
}

// firstTime says whether this is the first time that something is asked about this project.
// Where that cannot be kept, it is not.
func firstTime(what string) bool {
	places, err := placesHere()
	if err != nil {
		return false
	}
	if _, err := places.TrustStore(); err != nil {
		return false // programs in the sandbox could write there
	}
	dir := filepath.Join(filepath.Dir(places.Trust), "told")
	if os.MkdirAll(dir, 0o700) != nil {
		return false
	}
	sum := sha256.Sum256([]byte(places.Root()))
	f, err := os.OpenFile(filepath.Join(dir, what+"-"+hex.EncodeToString(sum[:])), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
