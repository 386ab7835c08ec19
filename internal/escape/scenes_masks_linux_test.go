package escape

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// secretWord is in every file that is hidden in these scenes.
const secretWord = "the-secret-word\n"

var secretFiles = []string{".env", "config/deep/.env", "config/prod.yml", ".aws/credentials", "server.key"}

// secretState is what became of them.
func (s *stage) secretState(dir string) (all string) {
	for _, f := range secretFiles {
		all += s.here.state(filepath.Join(dir, f))
	}
	return all
}

// secretPlace makes a workspace with secrets in it.
func (s *stage) secretPlace(name string) string {
	dir := s.fresh(name)
	for _, f := range secretFiles {
		s.here.put(filepath.Join(dir, f), secretWord, 0o644)
	}
	s.here.put(filepath.Join(dir, ".sandboxignore"), "/config/prod.yml\n", 0o644)
	must(s.t, os.Symlink("config/deep/.env", filepath.Join(dir, "link")))
	must(s.t, os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "config/other")))
	s.here.own(filepath.Dir(dir))
	return dir
}

// maskedFiles: what is hidden cannot be read, replaced, renamed or removed, in any mode of
// the workspace and by nobody inside.
func maskedFiles(s *stage) {
	const read = "EACCES ENOENT"
	attempts := []struct{ n, name, do, walls string }{
		{"m1", "read a hidden file", "read .env", read},
		{"m1.deep", "read one further down", "read config/deep/.env", read},
		{"m1.dir", "read a file of a hidden directory", "read .aws/credentials", read},
		{"m1.rule", "read what .sandboxignore hides", "read config/prod.yml", read},
		{"m1.link", "read it by a symbolic link", "read link", read},
		{"m1.hard", "read it by another of its names", "read config/other", read},
		{"m1.proc", "read it below /proc/self/root", "read /proc/self/root{dir}/.env", read},
		{"m2", "write to a hidden file", "write .env", "EACCES EROFS"},
		{"m2.trunc", "truncate it", "truncate .env", "EACCES EROFS EINVAL"},
		{"m2.time", "set its times", "utime .env", "EROFS"},
		{"m2.over", "move a file over it", "rename .sandboxignore .env", "EBUSY"},
		{"m2.new", "put a file into a hidden directory", "create .aws/new", "EROFS"},
		{"m3", "rename a hidden file", "rename .env moved", "EBUSY"},
		{"m3.dir", "rename a hidden directory", "rename .aws moved", "EBUSY"},
		{"m3.up", "rename a directory above one", "rename config moved", "EBUSY EXDEV"},
		{"m3.in", "rename one further down", "rename config/deep moved", "EBUSY EXDEV"},
		{"m4", "remove a hidden file", "unlink server.key", "EBUSY"},
		{"m4.dir", "remove a hidden directory", "rmdir .aws", "EBUSY ENOTEMPTY"},
		{"m5", "make another name for it", "link .env named", "EXDEV"},
		{"m7", "change what .sandboxignore says", "write .sandboxignore", "EROFS EACCES"},
	}
	// Inside, all of them fail, so one sandbox does for all.
	script := ""
	for _, a := range attempts {
		script += `"$0" ` + strings.ReplaceAll(a.do, "{dir}", "$PWD") + "\n"
	}
	for _, mode := range []struct{ name, flags string }{{"", ""}, {".root", "--root"}, {".cow", "--workspace cow"}, {".nest", "--nesting"}} {
		in := s.secretPlace("masks-in" + mode.name)
		before := s.secretState(in)
		args := append(append([]string{"run"}, strings.Fields(mode.flags)...), "--", "sh", "-c", script, s.probe)
		got := s.coffer(in, args...)
		all := outcomes(got.out)
		same := s.secretState(in) == before
		for i, a := range attempts {
			if mode.name == ".cow" && a.n == "m7" {
				continue // it changes a copy
			}
			kept := outcome{Wall: "NO-RESULT " + got.err}
			if len(all) == len(attempts) {
				kept = all[i]
			}
			out := s.secretPlace("masks-out")
			free := s.outside(out, strings.Fields(strings.ReplaceAll(a.do, "{dir}", out))...)
			must(s.t, os.RemoveAll(out))
			works := free.Wall == "" || free.Wall == "ENOTEMPTY" // what it is about was in reach
			s.r.judge(a.n+mode.name, a.name, works, free.String(), met(kept, a.walls) && same, kept.String())
		}
	}
}

// unmountedMasks: nobody inside can take the cover away.
func unmountedMasks(s *stage) {
	in, out := s.secretPlace("cover-in"), s.secretPlace("cover-out")
	for _, flags := range []string{"", "--root"} {
		c := s.bed.Program(program(s.t), "ns", "in-mount", filepath.Join(out, ".aws"), "umount")
		free := s.run(c).probed()
		kept := s.inside(in, append(strings.Fields(flags), "--", "umount", filepath.Join(in, ".aws"))...)
		s.r.judge("m6"+strings.Replace(flags, "--", ".", 1), "unmount the cover", free.Wall == "", free.String(), met(kept, "EPERM"), kept.String())
	}
	// In a namespace of its own a program has all capabilities, and the mounts are locked.
	script := `unshare -Urm sh -c 'umount .env; umount -l .env; mkdir v; mount --bind . v && cat v/.env; mount --rbind . v && cat v/.env; cat .env'`
	got := s.coffer(in, "run", "--nesting", "--", "sh", "-c", script)
	control := s.run(s.bed.Program("/bin/sh", "-c", "cd "+out+" && "+script))
	s.r.judge("m6.nest", "unmount or go round the cover in a namespace inside", strings.Contains(control.out, secretWord), "read",
		!strings.Contains(got.out, secretWord), "not read")
}

// appearingSecrets: what appears on the host while a sandbox runs is hidden there.
func appearingSecrets(s *stage) {
	dir := s.secretPlace("appear")
	s.coffer(dir, "exec", "--create", "--name", "appear", "--", "true")
	for _, a := range []struct{ n, name, file string }{
		{"m8", "read a secret that appears", "late.key"},
		{"m8.deep", "read one in a directory that appears", "made/later/.env"},
		{"m8.again", "read one that was replaced on the host", ".env"},
	} {
		at := filepath.Join(dir, a.file)
		must(s.t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(s.t, os.WriteFile(at+".tmp-new", []byte(secretWord), 0o644))
		must(s.t, os.Rename(at+".tmp-new", at))
		s.here.own(dir)
		free := s.outside(dir, "read", at)
		kept := s.until(func() (outcome, bool) {
			got := s.coffer(dir, "exec", "-m", "appear", "--", s.probe, "read", at).probed()
			return got, met(got, "EACCES")
		})
		data, _ := os.ReadFile(at)
		s.r.judge(a.n, a.name, free.Wall == "", free.String(), met(kept, "EACCES") && bytes.Equal(data, []byte(secretWord)), kept.String())
	}
	for _, a := range []struct{ n, name, from, to string }{
		{"m8.hard", "read a secret by a hard link that appears", ".env", "config/linked"},
		{"m8.seen", "read a file that was seen, and got a hidden name", "config/seen", "config/seen.key"},
	} {
		from, to := filepath.Join(dir, a.from), filepath.Join(dir, a.to)
		if !exists(from) {
			s.here.put(from, secretWord, 0o644)
			s.here.own(dir)
		}
		must(s.t, os.Link(from, to))
		for _, at := range []string{from, to} {
			free := s.outside(dir, "read", at)
			kept := s.until(func() (outcome, bool) {
				got := s.coffer(dir, "exec", "-m", "appear", "--", s.probe, "read", at).probed()
				return got, met(got, "EACCES")
			})
			s.r.judge(a.n, a.name, free.Wall == "", free.String(), met(kept, "EACCES"), kept.String())
		}
	}
	s.coffer(dir, "rm", "--force", "appear")
}

// soughtSecrets: in a copy-on-write workspace, the kernel remembers that there was no such file
// when a program looked, until that program makes it forget. A command that starts is not shown it.
func soughtSecrets(s *stage) {
	dir := s.secretPlace("sought")
	at := func(name string) string { return filepath.Join(dir, name) }
	s.coffer(dir, "exec", "--create", "--workspace", "cow", "--name", "sought", "--", "sh", "-c", "test -e late.key; test -e made; mkdir own")
	for _, a := range []struct{ n, name, file string }{
		{"m10", "read a secret that was looked for before it appeared", "late.key"},
		{"m10.dir", "read one in a directory that was looked for", "made/.env"},
		{"m10.own", "read one in a directory that was made inside first", "own/.env"},
	} {
		s.here.put(at(a.file), secretWord, 0o644)
		s.here.own(dir)
		free := s.outside(dir, "read", at(a.file))
		for range 3 { // which gives the kernel occasion to forget
			kept := s.coffer(dir, "exec", "-m", "sought", "--", s.probe, "read", at(a.file)).probed()
			s.r.judge(a.n, a.name, free.Wall == "", free.String(), met(kept, "EACCES ENOENT"), kept.String())
		}
	}
	s.coffer(dir, "rm", "--force", "sought")
}

// jailedSecrets: what appears while a jail runs is hidden from the next start on.
func jailedSecrets(s *stage) {
	dir := s.fresh("jail-in")
	must(s.t, os.MkdirAll(filepath.Join(dir, "made/later"), 0o755))
	s.here.own(dir)
	file := filepath.Join(dir, "made/later/.env")
	jail := func(argv ...string) *exec.Cmd {
		c := s.bed.Command(append([]string{"jail", "-q", "--net", "host", "--"}, argv...)...)
		c.Dir = dir
		return c
	}
	s.run(jail("/bin/true")) // a first start sees no file
	s.here.put(file, secretWord, 0o644)
	s.here.own(dir)
	free, kept := s.outside(dir, "read", file), s.run(jail(s.probe, "read", file)).probed()
	s.r.judge("m11", "read a secret that appeared between starts of a jail", free.Wall == "", free.String(), met(kept, "EACCES"), kept.String())
}

// until tries for a generous time.
func (s *stage) until(try func() (outcome, bool)) (o outcome) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if o, ok = try(); ok {
			return o
		}
	}
	return o
}
