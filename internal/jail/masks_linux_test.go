package jail

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/mask"
)

// Files with secrets cannot be read, replaced, renamed or removed, nor can what is above
// them be renamed. Without mounts that is not so, and said; a strict jail refuses.
func TestMasks(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		v := newVictims(t, s)
		fill := func() {
			for name, content := range map[string]string{
				".env": "secret", "deep/er/.env": "secret", "mine.hidden": "secret", "theirs.txt": "secret",
				".sandboxignore": "theirs.txt\n", ".aws/credentials": "secret", ".env.example": "none", "deep/plain": "x",
			} {
				s.write(t, filepath.Join(s.Work, name), content)
			}
		}
		fill()
		what := []string{
			"read:WORK/.env", "write:WORK/.env", "open-truncate:WORK/.env", "chmod:WORK/.env", "rename:WORK/.env", "remove:WORK/.env", "link:WORK/.env",
			"read:WORK/deep/er/.env", "rename:WORK/deep/er", "rename:WORK/deep", "read:WORK/mine.hidden", "read:WORK/theirs.txt",
			"list:WORK/.aws", "read:WORK/.aws/credentials", "rename:WORK/.aws", "write:WORK/.sandboxignore",
		}
		fine := []string{"read:WORK/.env.example", "write:WORK/deep/plain", "create:WORK/deep/new", "read:WORK/.sandboxignore"}
		all := append(append([]string{}, fine...), what...)
		for i := range all {
			all[i] = v.fill(all[i])
		}
		w := s.policy().in(layer)
		w.Masks = []string{"*.hidden"}
		w.Argv = append([]string{v.Binary, "jail-try"}, all...)
		r := s.run(t, w)
		got := strings.Fields(r.out)
		if len(got) != len(all) {
			t.Fatal(r)
		}
		for i := range fine {
			if got[i] != "ok" {
				t.Errorf("%s: %s", all[i], got[i])
			}
		}
		said := strings.Contains(r.err, "files that are to be hidden can be read and changed: "+s.Work)
		switch {
		case layer == Namespaces:
			for i := len(fine); i < len(all); i++ {
				if got[i] == "ok" {
					t.Errorf("%s works", all[i])
				}
			}
			if said {
				t.Error(r)
			}
		case !said || got[len(fine)] != "ok":
			t.Errorf("without mounts: %v", r)
		}
		fill()
		w.Strict, w.Argv = true, []string{"echo", "runs"}
		if r := s.run(t, w); layer != Namespaces && (r.code == 0 || !strings.Contains(r.err, "to be hidden")) || layer == Namespaces && r.code != 0 {
			t.Errorf("strict: %v", r)
		}
		// The control: outside, and with a jail that hides nothing, all of it works.
		outside := v.try(t, nil, []string{"read:" + s.Work + "/.env", "write:" + s.Work + "/.env", "read:" + s.Work + "/mine.hidden", "rename:" + s.Work + "/.sandboxignore"})
		if strings.Join(outside, " ") != "ok ok ok ok" {
			t.Errorf("outside: %v, so it proves nothing", outside)
		}
	})
}

// The first few of many hidden files are named, as other lists are.
func TestGap(t *testing.T) {
	var h hidden
	for _, path := range []string{"/a", "/b", "/c", "/d", "/e"} {
		h.paths = append(h.paths, mask.Found{Path: path})
	}
	if what := h.gap().What; !strings.HasSuffix(what, ": /a, /b, /c and 2 more") {
		t.Error(what)
	}
}
