package checkpoint

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cofferhq/coffer/internal/changes"
)

// A lease keeps a file from being opened. That is said, and does not look like a large file.
func TestLease(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(dir + "/leased")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip(err)
	}
	side := Side(dir, Delta{Path: "leased", New: Item{Mode: Regular}}, 1<<20)
	if !side.Unread {
		t.Fatalf("%+v", side)
	}
	var b strings.Builder
	out := bufio.NewWriter(&b)
	changes.WriteFile(out, "leased", changes.Side{}, side)
	if out.Flush(); !strings.Contains(b.String(), "a program holds a lease") {
		t.Errorf("the diff is %s", b.String())
	}
	found := changes.Review(changes.File{Path: "leased", New: side})
	if len(found) != 1 || found[0].Rule != "unreadable" {
		t.Errorf("the review finds %v", found)
	}
}
