package escape

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// A world is a home, a workspace, and victims. There are two for every user: one that
// a sandbox is put over, and one for the controls, whose victims suffer.
type world struct {
	t       testing.TB
	bed     *testbed.Bed
	control bool
	dir     string // holds the rest
	home    string
	work    string
	outside string // a directory that is neither
	hub     *hub
	procs   map[string]*victim // by attempt
	suid    string             // a set-user-id program of somebody else, if there could be one
}

// secrets are the files of the home that everybody knows the names of.
var secrets = []string{
	".ssh/id_ed25519", ".aws/credentials", ".gnupg/private-keys-v1.d/a.key", ".netrc",
	".config/gcloud/credentials.db", ".docker/config.json", ".kube/config",
	".local/share/keyrings/login.keyring", ".mozilla/firefox/x.default/logins.json",
	".config/google-chrome/Default/Cookies", ".git-credentials", ".bash_history",
	".claude/.credentials.json", ".codex/auth.json",
}

// startup are files of the home that are run sooner or later.
var startup = []string{
	".bashrc", ".profile", ".zshrc", ".config/systemd/user/x.service", ".config/autostart/x.desktop",
	".config/fish/config.fish", ".gitconfig", ".ssh/authorized_keys",
}

func newWorld(t testing.TB, b *testbed.Bed, control bool) *world {
	w := &world{t: t, bed: b, control: control, dir: b.Dir, home: b.Home, work: b.Work, procs: map[string]*victim{}}
	if control {
		w.dir = filepath.Join(b.Dir, "control")
		w.home, w.work = filepath.Join(w.dir, "home"), filepath.Join(w.dir, "work")
	}
	w.outside = filepath.Join(w.dir, "outside")
	for _, name := range append(append([]string{".local/bin/x", ".local/lib/x"}, secrets...), startup...) {
		w.put(filepath.Join(w.home, name), "secret\n", 0o644)
	}
	copyTo(t, program(t), filepath.Join(w.home, ".local/bin/probe"), 0o755)
	w.repository(w.work)
	w.put(filepath.Join(w.outside, "x"), "", 0o644)
	if control {
		w.put(filepath.Join(w.home, ".local/share/coffer/sandboxes/x/sandbox.json"), "{}", 0o644)
	}
	if os.Getuid() == 0 {
		w.suid = filepath.Join(w.work, "suid")
		copyTo(t, program(t), w.suid, 0o755)
	}
	w.own(w.dir)
	if w.suid != "" {
		must(t, os.Chown(w.suid, stranger, stranger))
		must(t, os.Chmod(w.suid, 0o755|os.ModeSetuid))
	}
	w.hub = newHub(w)
	return w
}

// stranger owns the set-user-id program.
const stranger = 64999

// own gives everything to the bed's user.
func (w *world) own(dir string) {
	if w.bed.UID == os.Getuid() {
		return
	}
	must(w.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, w.bed.UID, w.bed.UID)
	}))
}

func (w *world) put(path, text string, mode os.FileMode) {
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(w.t, os.WriteFile(path, []byte(text), mode))
}

// repository makes one with hooks in two places.
func (w *world) repository(dir string) {
	for name, text := range map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/hooks/pre-commit": "#!/bin/sh\n", ".git/info/exclude": "",
		".git/objects/info/x": "", ".git/refs/heads/x": "",
		".git/config":   "[core]\n\trepositoryformatversion = 0\n\thooksPath = .husky/_\n",
		".husky/_/hook": "#!/bin/sh\n",
		"file":          "mine\n",
	} {
		w.put(filepath.Join(dir, name), text, 0o755)
	}
}

// place is the workspace of one attempt: outside each has its own, for repositories
// do not survive every control.
func (w *world) place(id string) string {
	if !w.control {
		return w.work
	}
	dir := filepath.Join(w.dir, "each", id)
	if _, err := os.Lstat(dir); err != nil {
		w.repository(dir)
		w.own(filepath.Dir(dir))
	}
	return dir
}

var placeholder = regexp.MustCompile(`\{[a-z0-9]+\}`)

// expand fills in the placeholders of an attempt, making the victims they name.
func (w *world) expand(id, s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(p string) string {
		switch p {
		case "{id}":
			return id
		case "{out}": // a file that a sandbox must not even see
			return w.file(filepath.Join(w.outside, id))
		case "{rel}":
			rel, err := filepath.Rel(w.work, w.file(filepath.Join(w.outside, id)))
			must(w.t, err)
			return rel
		case "{name}":
			return filepath.Base(w.file(filepath.Join(w.outside, id)))
		case "{ro}": // a file that it may see
			return w.file(filepath.Join(w.home, ".local/lib", id))
		case "{home}":
			return w.home
		case "{work}":
			return w.place(id)
		case "{git}":
			return filepath.Join(w.place(id), ".git")
		case "{new}": // a file of the workspace that is not there yet
			return filepath.Join(w.place(id), "new-"+id)
		case "{pid}":
			return strconv.Itoa(w.process(id).pid)
		case "{addr}":
			return w.process(id).addr
		case "{alive}":
			return "pid:" + id
		case "{heard}":
			return "heard:" + id
		case "{suid}":
			if w.suid == "" {
				return filepath.Join(w.home, ".local/bin/probe") // proves nothing
			}
			return w.suid
		}
		return w.hub.address(strings.Trim(p, "{}"))
	})
}

// file makes a victim, once.
func (w *world) file(path string) string {
	if _, err := os.Lstat(path); err != nil {
		w.put(path, "untouched\n", 0o644)
		w.own(path)
	}
	return path
}

// state describes a victim, so that any change to it shows.
func (w *world) state(v string) string {
	if id, ok := strings.CutPrefix(v, "pid:"); ok {
		return w.procs[id].state()
	}
	if id, ok := strings.CutPrefix(v, "heard:"); ok {
		return strconv.FormatBool(w.hub.heard(id))
	}
	var b strings.Builder
	filepath.WalkDir(v, func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err != nil || syscall.Lstat(path, &st) != nil {
			fmt.Fprintln(&b, "absent")
			return nil
		}
		fmt.Fprintln(&b, path, st.Ino, st.Mode, st.Nlink, st.Uid, st.Size, st.Mtim.Nano(), st.Rdev)
		if st.Mode&syscall.S_IFMT == syscall.S_IFREG {
			data, _ := os.ReadFile(path)
			fmt.Fprintf(&b, "%x\n", sha256.Sum256(data))
		}
		names := make([]byte, 4096)
		if n, err := unix.Llistxattr(path, names); err == nil {
			b.Write(names[:n])
		}
		return nil
	})
	return b.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func copyTo(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	must(t, os.WriteFile(to, data, mode))
}
