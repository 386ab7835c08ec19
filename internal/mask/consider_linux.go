package mask

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// consider tells about something to hide, unless it gives nothing away. Then it is looked
// at again when it changes.
func (w *watcher) consider(f Found, again bool) error {
	switch {
	case f.Rule == tooDeep.Text && w.shared:
		return nil // somebody inside goes down there, and the next start hides it
	case f.Dir:
		return w.put(f, again)
	case f.same:
		return w.tell(f, again)
	}
	dir, name := path.Split(f.Path)
	r := w.t.Set.In(strings.TrimSuffix(dir, "/")).Decide(name, false)
	if w.shared || r != nil && r.Looks() {
		// First the watch, then the look: nothing is missed in between. Many such files may
		// not use up what can be watched.
		watched := (!again || len(w.files) < maxLeft) && w.watch(f.Path, w.files, unix.IN_MODIFY|unix.IN_CLOSE_WRITE)
		if (watched || !again) && (r != nil && !w.t.confirms(r, f.Path) || w.shared && w.harmless(f.Path)) {
			return nil
		}
	}
	if _, kind, _ := w.t.which(f.Path); kind == unix.S_IFLNK {
		w.lead(f)
		if err := w.behind(f, again); err != nil {
			return err
		}
	}
	return w.tell(f, again)
}

// maxLeft is how many files are left alone at most for as long as they give nothing away. More
// that appear are hidden as they are. A variable for tests.
var maxLeft = 1 << 13

// led is a hidden link, and where it leads.
type led struct {
	Found
	to string
	is Which
}

// lead remembers a hidden link.
func (w *watcher) lead(f Found) {
	if len(w.leads) >= 2*MaxHidden {
		maps.DeleteFunc(w.leads, func(path string, _ led) bool {
			_, kind, _ := w.t.which(path)
			return kind != unix.S_IFLNK
		})
	}
	if _, known := w.leads[f.Path]; known || len(w.leads) < 2*MaxHidden {
		w.leads[f.Path] = led{Found: f}
	}
}

// behind tells of what is behind a hidden link, if that is something else than it was.
func (w *watcher) behind(f Found, again bool) error {
	to, dir := w.t.behind(f.Path)
	if to == "" {
		return nil
	}
	is, _, _ := w.t.which(to)
	if l, known := w.leads[f.Path]; known {
		if l.to == to && l.is == is {
			return nil
		}
		l.to, l.is = to, is
		w.leads[f.Path] = l
	}
	f.Path, f.Dir, f.Rule = to, dir, f.Rule+" (behind "+f.Path+")"
	return w.tell(f, again)
}

// follow looks where hidden links lead now that something has appeared: it may be there.
func (w *watcher) follow() error {
	for _, l := range w.leads {
		if err := w.behind(l.Found, true); err != nil {
			return err
		}
	}
	return nil
}

// keep tells about a file that says what to hide.
func (w *watcher) keep(path string, again bool) error {
	is, kind, names := w.t.which(path)
	if kind != unix.S_IFREG || !again && names == 1 && w.kept[path] == is {
		return nil
	}
	if len(w.kept) > MaxRules {
		clear(w.kept) // and some are told again
	}
	w.kept[path] = is
	return w.put(Found{Path: path, Which: is, Keep: true}, again)
}

// templates are what the names of files to copy end in.
var templates = []string{".example", ".sample", ".template", ".dist", ".defaults"}

// maxTemplate is the longest file that is compared.
const maxTemplate = 64 << 10

// harmless says that a file is empty, or has the very bytes of a template beside it.
func (w *watcher) harmless(file string) bool {
	st, err := w.t.stat(file)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if st.Size == 0 {
		return true
	}
	content, err := w.t.read(file, maxTemplate)
	if err != nil || len(content) > maxTemplate {
		return false
	}
	self, _, _ := w.t.which(file)
	dir, name := path.Split(file)
	beside := []string{name}
	if strings.HasPrefix(name, ".env.") {
		beside = append(beside, ".env")
	}
	return slices.ContainsFunc(beside, func(name string) bool {
		return slices.ContainsFunc(templates, func(end string) bool {
			// The same file, by a name that somebody inside has made, is no template for itself.
			if is, _, _ := w.t.which(dir + name + end); is == self || w.t.Hides(dir+name+end, false) != nil {
				return false
			}
			same, err := w.t.read(dir+name+end, maxTemplate)
			return err == nil && bytes.Equal(same, content)
		})
	})
}
