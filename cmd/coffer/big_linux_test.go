package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/big take too long for every day: make test-big runs them.
func TestBig(t *testing.T) {
	if os.Getenv("COFFER_BIG") == "" {
		t.Skip("make test-big runs it")
	}
	binary(t)
	files, err := filepath.Glob("testdata/big/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		runScripts(t, b, testscript.Params{Files: files})
	})
}
