package safepath

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferhq/coffer/internal/ui"
)

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, filepath.Join(link, "further", "down")} {
		err := Directory(path, 0o700)
		if want := link + " is a link to nowhere, which is not there"; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if want := "make or mount what it leads to, or remove the link: 'rm " + link + "'"; ui.HintOf(err) != want {
			t.Errorf("%s: hint %q, want %q", path, ui.HintOf(err), want)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "nowhere"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, filepath.Join(link, "further", "down"), filepath.Join(dir, "missing")} {
		if err := Dangling(path); err != nil {
			t.Errorf("%s, where no link leads nowhere: %v", path, err)
		}
	}
	if err := Directory(filepath.Join(link, "further", "down"), 0o700); err != nil {
		t.Error(err)
	}
}
