package wire

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestDialNobody(t *testing.T) {
	if _, err := Dial(filepath.Join(t.TempDir(), "none")).Open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
