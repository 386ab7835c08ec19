package sandbox

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/cofferhq/coffer/internal/ui"
)

func TestDefaultDir(t *testing.T) {
	tests := map[string]struct{ xdg, home, want string }{
		"xdg":          {"/data", "/home/me", "/data/coffer/sandboxes"},
		"empty xdg":    {"", "/home/me", "/home/me/.local/share/coffer/sandboxes"},
		"relative xdg": {"data", "/home/me", "/home/me/.local/share/coffer/sandboxes"},
		"xdg only":     {"/data", "", "/data/coffer/sandboxes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_DATA_HOME", test.xdg)
			t.Setenv("HOME", test.home)
			if got, err := DefaultDir(); err != nil || got != test.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("passwd or hint", func(t *testing.T) {
		t.Setenv("XDG_DATA_HOME", "")
		t.Setenv("HOME", "")
		if got, err := DefaultDir(); err == nil && !filepath.IsAbs(got) || err != nil && !strings.Contains(ui.HintOf(err), "set HOME") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestOpen(t *testing.T) {
	if _, err := Open(""); err == nil {
		t.Error("a store without a directory")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(ui.HintOf(err), "move it away") {
			t.Errorf("%s, a file for a store: got %v, hint %q", dir, err, ui.HintOf(err))
		}
	}
	for _, mode := range []os.FileMode{0o720, 0o702, 0o777, 0o777 | os.ModeSticky} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || ui.HintOf(err) != "chmod 700 "+dir {
			t.Errorf("mode %v: got %v", mode, err)
		}
	}
	foreign := "/usr"
	if os.Geteuid() == 0 {
		foreign = t.TempDir()
		if err := os.Chown(foreign, testbed.Ordinary, testbed.Ordinary); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(foreign); err == nil || !strings.Contains(err.Error(), "belongs to uid") {
		t.Errorf("a store of another: %v", err)
	}
}

// Looking at a store that was never made works and does not make it.
func TestEmptyStore(t *testing.T) {
	s := newStore(t)
	if all, errs := s.List(); len(all)+len(errs) > 0 {
		t.Error(all, errs)
	}
	if _, err := s.Find("x"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := s.Sweep(nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("looking made a store")
	}
}

func TestCreate(t *testing.T) {
	s := newStore(t)
	rec := fullRecord()
	rec.ID, rec.Name, rec.Created, rec.Version = "", "", time.Time{}, 0
	sb, lock, err := s.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	if !validID(sb.ID) || CheckName(sb.Name) != nil || sb.Created.IsZero() || sb.Version != recordVersion || !sb.Running() {
		t.Errorf("%+v, running %v", sb.Record, sb.Running())
	}
	got, err := s.Get(sb.ID)
	if err != nil || !reflect.DeepEqual(got.Record, sb.Record) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, sb.Record)
	}
	for _, dir := range []string{s.Dir(), sb.Dir()} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	if info, err := os.Stat(filepath.Join(sb.Dir(), recordName)); err != nil || info.Mode() != 0o600 {
		t.Errorf("record: %v, %v", info, err)
	}
	if err := lock.Remove(nil); err != nil {
		t.Fatal(err)
	}
	only(t, s)
}

func TestCreateRefuses(t *testing.T) {
	s := newStore(t)
	web := create(t, s, stay("web"))
	for name, test := range map[string]struct {
		rec  Record
		want error
	}{
		"taken name":    {stay("web"), ErrExists},
		"an id":         {stay(web.ID), ErrExists},
		"bad name":      {stay("We b"), ErrName},
		"bad workspace": {Record{Workspace: Workspace{Path: "rel", Mode: WorkspaceCOW}}, nil},
		"no mode":       {Record{}, nil},
	} {
		_, lock, err := s.Create(test.rec)
		if err == nil || lock != nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	only(t, s, web.ID)
}

func TestSameNameAtOnce(t *testing.T) {
	s := newStore(t)
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for range 10 {
		wg.Go(func() {
			_, lock, err := s.Create(stay("one"))
			lock.Release()
			errs <- err
		})
		p := start(t, nil, "create", s.Dir(), "one")
		wg.Go(func() {
			out, _ := p.out.ReadString('\n')
			if err := p.Wait(); err == nil {
				errs <- nil
			} else if strings.Contains(out, ErrExists.Error()) {
				errs <- ErrExists
			} else {
				errs <- errors.New(out)
			}
		})
	}
	wg.Wait()
	made := 0
	for range 20 {
		if err := <-errs; err == nil {
			made++
		} else if !errors.Is(err, ErrExists) {
			t.Error(err)
		}
	}
	all, broken := s.List()
	if made != 1 || len(all) != 1 || len(broken) > 0 {
		t.Errorf("%d made, %d there, %v", made, len(all), broken)
	}
}

func TestFind(t *testing.T) {
	s := newStore(t)
	var all []*Sandbox
	for i, name := range []string{"web", "web-two", "api", "calm-otter"} {
		rec := stay(name)
		rec.Created = time.Unix(int64(1000-i), 0) // the last one is the oldest
		all = append(all, create(t, s, rec))
	}
	// A name that is also the beginning of an id reaches its sandbox.
	shadow := create(t, s, stay(all[0].ID[:4]))

	for match, want := range map[string]string{
		all[0].ID: "web", all[1].ID[:7]: "web-two", "web": "web", "two": "web-two", "otter": "calm-otter", shadow.Name: shadow.Name,
	} {
		if sb, err := s.Find(match); err != nil || sb.Name != want {
			t.Errorf("%q: got %v, %v, want %s", match, sb, err, want)
		}
	}
	for _, match := range []string{"", "nothing", "../" + all[0].ID, "W", "."} {
		if sb, err := s.Find(match); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: got %v, %v", match, sb, err)
		}
	}
	if _, err := s.Get("../x"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	_, err := s.Find("we")
	var ambiguous *AmbiguousError
	// An id may start with "we" too; then the answer is that one.
	if errors.As(err, &ambiguous) {
		lines := strings.Split(err.Error(), "\n")
		want := "  " + all[1].ID + "  web-two  /work/web-two"
		if len(lines) != 3 || lines[1] != want || len(ambiguous.Candidates) != 2 {
			t.Errorf("got %q, want a line %q", err, want)
		}
	} else if err != nil {
		t.Error(err)
	}
	list, errs := s.List()
	if len(errs) > 0 || len(list) != 5 || list[0].Name != "calm-otter" || list[3].Name != "web" {
		t.Errorf("%v, %v", list, errs)
	}
}

// A broken sandbox is reported, and hides no other.
func TestBroken(t *testing.T) {
	spoil := map[string]func(path string) error{
		"is empty":   func(path string) error { return os.Truncate(path, 0) },
		"is damaged": func(path string) error { return os.Truncate(path, 30) },
		"is missing": os.Remove,
		"belongs to": func(path string) error {
			rec := fullRecord()
			data, err := rec.encode()
			return errors.Join(err, os.WriteFile(path, data, 0o600))
		},
		"is larger than": func(path string) error { return os.Truncate(path, 1<<30) },
		"cannot be read": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path))
		},
		"update coffer": func(path string) error { return os.WriteFile(path, []byte(`{"version":99}`), 0o600) },
	}
	for want, spoil := range spoil {
		t.Run(want, func(t *testing.T) {
			s := newStore(t)
			good, bad := create(t, s, stay("good")), create(t, s, stay("bad"))
			if err := spoil(filepath.Join(bad.Dir(), recordName)); err != nil {
				t.Fatal(err)
			}
			all, errs := s.List()
			if len(all) != 1 || all[0].ID != good.ID || len(errs) != 1 {
				t.Fatalf("%v, %v", all, errs)
			}
			_, find := s.Find(bad.ID)
			_, prefix := s.Find(bad.ID[:7])
			for _, err := range []error{errs[0], find, prefix} {
				var broken *BrokenError
				if !errors.As(err, &broken) || broken.Dir != bad.Dir() || !strings.Contains(err.Error()+ui.HintOf(err), want) ||
					!strings.Contains(err.Error(), bad.Dir()) || ui.HintOf(err) == "" {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if _, err := s.Find("bad"); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
			if err := s.Sweep(nil); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(bad.Dir()); err != nil {
				t.Errorf("the sweep took a sandbox that was to stay: %v", err)
			}
		})
	}
	t.Run("stray file", func(t *testing.T) {
		s := newStore(t)
		good := create(t, s, stay("good"))
		if err := os.WriteFile(filepath.Join(s.Dir(), "notes"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if all, errs := s.List(); len(all) != 1 || all[0].ID != good.ID || len(errs) != 1 {
			t.Errorf("%v, %v", all, errs)
		}
	})
}

func TestSave(t *testing.T) {
	s := newStore(t)
	web, api := create(t, s, stay("web")), create(t, s, stay("api"))
	web.Name, web.Command = "site", []string{"ls"}
	if err := web.Save(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Find("site"); err != nil || !reflect.DeepEqual(got.Record, web.Record) {
		t.Errorf("%v, %v", got, err)
	}
	for name, test := range map[string]struct {
		change func(*Record)
		want   error
	}{
		"taken":      {func(r *Record) { r.Name = "site" }, ErrExists},
		"bad name":   {func(r *Record) { r.Name = "" }, ErrName},
		"another id": {func(r *Record) { r.ID = web.ID }, nil},
		"throw-away": {func(r *Record) { r.Ephemeral = true }, nil},
	} {
		changed := *api
		test.change(&changed.Record)
		if err := changed.Save(); err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got, err := s.Get(api.ID); err != nil || !reflect.DeepEqual(got.Record, api.Record) {
		t.Errorf("a refused change was saved: %v, %v", got, err)
	}
	if err := api.Remove(nil); err != nil {
		t.Fatal(err)
	}
	if err := api.Save(); !errors.Is(err, ErrNotFound) {
		t.Errorf("saved what was removed: %v", err)
	}
	only(t, s, web.ID)
}

func TestReadOnlyStore(t *testing.T) {
	if !testbed.AsOrdinary(t) {
		return
	}
	s := newStore(t)
	web := create(t, s, stay("web"))
	chmod := func(mode os.FileMode) {
		for _, path := range []string{web.Dir(), s.Dir()} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(filepath.Join(s.Dir(), storeLockName), 0o400); err != nil {
		t.Fatal(err)
	}
	chmod(0o500)
	defer chmod(0o700)

	if sb, err := s.Find("web"); err != nil || sb.Running() {
		t.Errorf("reading: %v", err)
	}
	if err := s.Sweep(nil); err != nil {
		t.Errorf("nothing to sweep: %v", err)
	}
	_, _, create := s.Create(throwAway())
	_, lock := web.Lock()
	for name, err := range map[string]error{"create": create, "save": web.Save(), "lock": lock, "remove": web.Remove(nil)} {
		if !errors.Is(err, fs.ErrPermission) || ui.HintOf(err) == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestUnreadableStore(t *testing.T) {
	if !testbed.AsOrdinary(t) {
		return
	}
	s := newStore(t)
	create(t, s, stay("web"))
	if err := os.Chmod(s.Dir(), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(s.Dir(), 0o700)
	if _, errs := s.List(); len(errs) != 1 || !errors.Is(errs[0], fs.ErrPermission) {
		t.Error(errs)
	}
	if _, err := s.Find("web"); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

func TestSocket(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long/", 60), "store")
	for _, dir := range []string{filepath.Join("/tmp", filepath.Base(t.TempDir())+randomText(8)), long} {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer safepath.RemoveTree(dir)
		sb := create(t, s, stay("web"))
		path, release, err := sb.Socket()
		if err != nil {
			t.Fatal(err)
		}
		if len(path) >= maxSocketPath {
			t.Errorf("%d bytes: %s", len(path), path)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(filepath.Join(sb.Dir(), socketName)); err != nil || info.Mode().Type() != os.ModeSocket {
			t.Errorf("the socket is not in its place: %v, %v", info, err)
		}
		there, done, err := sb.Socket()
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("unix", there)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		done()
		l.Close()
		release()
		if hasAny(sb.Dir(), socketName) {
			t.Error("closing did not unlink it")
		}
	}
}
