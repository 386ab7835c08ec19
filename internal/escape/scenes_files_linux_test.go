package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func containsLine(text, line string) bool {
	for l := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}

// copyOnWrite: nothing reaches the workspace, and nothing set-user-id leaves with
// what is applied.
func copyOnWrite(s *stage) {
	build := func(name string) string {
		dir := s.fresh(name)
		s.here.repository(dir)
		s.here.own(filepath.Dir(dir))
		return dir
	}
	in, out := build("cow-in"), build("cow-out")
	before := s.here.state(in)
	for _, a := range []struct{ n, name, do, path string }{
		{"x10", "cow: write to the workspace", "write", "/file"},
		{"x10.git", "cow: write a hook", "write", "/.git/hooks/pre-commit"},
		{"x10.low", "cow: remove a file", "unlink", "/.git/config"},
	} {
		free, kept := s.outside(out, a.do, out+a.path), s.inside(in, "--workspace", "cow", "--", a.do, in+a.path)
		s.r.judge(a.n, a.name, free.Wall == "", free.String(), s.here.state(in) == before, kept.String()+", kept apart")
	}
	free, kept := s.outside(out, "write", out+"/file"), s.inside(in, "--workspace", "cow", "--", "write", "/.coffer/lower/file")
	s.r.judge("x10.dir", "cow: write to the layer below", free.Wall == "", free.String(), met(kept, "ENOENT EROFS EACCES") && s.here.state(in) == before, kept.String())
	s.coffer(in, "rm", "--force", "--everywhere")

	s.coffer(in, "run", "--workspace", "cow", "--root", "--name", "leave", "--", "/bin/sh", "-c",
		`"$0" suid-file chmod "$PWD/evil"; "$0" create "$PWD/.git/hooks/evil"`, s.probe)
	s.coffer(in, "apply", "leave")
	free = s.outside(out, "suid-file", "chmod", out+"/evil")
	info, err := os.Lstat(in + "/evil")
	s.r.judge("x10.suid", "cow: have a set-user-id file applied", free.Wall == "", free.String(),
		err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0, fmt.Sprint("applied as ", modeOf(info)))
	free = s.outside(out, "create", out+"/.git/hooks/evil")
	s.r.judge("x10.hook", "cow: have a hook applied", free.Wall == "", free.String(), !exists(in+"/.git/hooks/evil"), "left out")
	s.coffer(in, "rm", "--force", "--everywhere")
}

func modeOf(info os.FileInfo) string {
	if info == nil {
		return "nothing"
	}
	return info.Mode().String()
}

// homeWorkspace: who insists on his home as workspace still does not share the store.
func homeWorkspace(s *stage) {
	store := filepath.Join(s.bed.Home, ".local/share/coffer/sandboxes")
	free := s.outside(s.bed.Home, "list", store)
	kept := s.inside(s.bed.Home, "--force", "--workspace", "cow", "--", "list", store)
	s.r.judge("27.home", "list coffer's store when the home is the workspace", free.Wall == "" || free.Wall == "EMPTY" || exists(store), "visible", met(kept, "EMPTY ENOENT EACCES"), kept.String())
	got := s.coffer(store, "run", "--", "true")
	s.r.judge("27.store", "take the store for a workspace", exists(store), "exists", got.code == 125, refusal(got))
}

// plantedHome: links that a program left in the sandbox's home for its next start,
// where tools of the host are going to be mounted.
func plantedHome(s *stage) {
	for _, d := range []string{".cargo/bin", ".rustup"} {
		must(s.t, os.MkdirAll(filepath.Join(s.bed.Home, d), 0o755))
	}
	s.here.own(filepath.Join(s.bed.Home, ".cargo"))
	s.here.own(filepath.Join(s.bed.Home, ".rustup"))
	dir := s.fresh("planted")
	before := s.here.state(s.bed.Home + "/.cargo")
	probe := filepath.Join(dir, "probe") // the tools in the home will be gone
	copyTo(s.t, program(s.t), probe, 0o755)
	s.here.own(dir)
	s.coffer(dir, "exec", "--create", "--name", "planted", "--", probe, "plant",
		s.bed.Home+"/.cargo=/usr", s.bed.Home+"/.local=/usr", s.bed.Home+"/.rustup="+dir)
	s.coffer(dir, "stop", "--force", "planted")
	got := s.coffer(dir, "exec", "-m", "planted", "--", probe, "mountinfo", "/usr/bin")
	o := got.probed()
	link := filepath.Join(s.there.work, "link")
	must(s.t, os.Symlink("/usr", link))
	c := s.bed.Program(program(s.t), "ns", "bind-through", s.there.home, link+"/bin", "/usr/bin")
	free := s.run(c).probed()
	s.r.judge("21.home", "have the next start mount through planted links", free.Wall == "", free.String(),
		(got.code == 125 || o.Wall == "ABSENT") && s.here.state(s.bed.Home+"/.cargo") == before, refusal(got))
	s.coffer(dir, "rm", "--force", "planted")
}

// swappedWorkspace: one sandbox puts a link in the place of another's workspace.
func swappedWorkspace(s *stage) {
	dir, victim := s.fresh("swap"), s.fresh("swap-victim")
	sub := filepath.Join(dir, "sub")
	must(s.t, os.Mkdir(sub, 0o755))
	s.here.own(filepath.Dir(dir))
	s.coffer(sub, "exec", "--create", "--name", "swapped", "--", "true")
	s.coffer(sub, "stop", "--force", "swapped")
	s.coffer(dir, "run", "--", "/bin/sh", "-c", "mv sub aside; ln -s "+victim+" sub")
	free := s.outside(dir, "create", sub+"/control")
	got := s.coffer(dir, "exec", "-m", "swapped", "--", s.probe, "create", sub+"/marker")
	s.r.judge("21.swap", "put a link in the place of another sandbox's workspace", free.Wall == "" && exists(victim+"/control"), free.String(),
		!exists(victim+"/marker"), refusal(got))
	s.coffer(dir, "rm", "--force", "swapped")
}

// racedWorkspace: the same, over and over, while the other sandbox starts.
func racedWorkspace(s *stage) {
	dir, victim := s.fresh("race"), s.fresh("race-victim")
	sub, link := filepath.Join(dir, "sub"), filepath.Join(dir, "link")
	must(s.t, os.Mkdir(sub, 0o755))
	s.here.own(filepath.Dir(dir))
	s.coffer(sub, "exec", "--create", "--name", "raced", "--", "true")
	s.coffer(dir, "stop", "--force", "raced")
	must(s.t, os.Symlink(victim, link))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	// Outside: look first, then use the path.
	lured := false
	for n := 0; n < 100000 && !lured; n++ {
		if info, err := os.Lstat(sub); err == nil && info.IsDir() {
			os.WriteFile(sub+"/control", nil, 0o644)
		}
		lured = exists(victim + "/control")
	}
	ran := 0
	for range 10 {
		if s.coffer(dir, "exec", "-m", "raced", "--", s.probe, "create", "marker").code == 0 {
			ran++
		}
		s.coffer(dir, "stop", "--force", "raced")
	}
	close(stop)
	<-done
	s.r.judge("111", "swap a workspace while its sandbox starts", lured, "lured away", !exists(victim+"/marker"), fmt.Sprintf("%d ran, %d refused", ran, 10-ran))
	s.coffer(dir, "rm", "--force", "raced")
}

// nesting: with namespaces of one's own, what the sandbox mounted still holds.
func nesting(s *stage) {
	build := func(name string) string {
		dir := s.fresh(name)
		s.here.repository(dir)
		s.here.own(filepath.Dir(dir))
		return dir
	}
	in, out := build("nest-in"), build("nest-out")
	before := s.here.state(in + "/.git")
	for _, a := range []struct{ n, do, at, walls string }{
		{"16.nest", "umount", in + "/.git", "EINVAL EPERM"}, {"16.nrw", "remount", in + "/.git", "EPERM EINVAL"},
		{"16.nobj", "umount", "/.coffer/objects/0", "EINVAL EPERM"}, {"16.nattr", "setattr", "/.coffer/objects/0", "EPERM EINVAL"},
	} {
		free := s.outside(out, "ns", "in-mount", out+"/.git", a.do)
		kept := s.inside(in, "--nesting", "--", "ns", a.do, a.at)
		s.r.judge(a.n, "--nesting: "+a.do+" "+filepath.Base(a.at)+" in one's own namespace", free.Wall == "", free.String(), met(kept, a.walls) && s.here.state(in+"/.git") == before, kept.String())
	}
	free, kept := s.outside(out, "write", out+"/.git/config"), s.inside(in, "--nesting", "--", "write", in+"/.git/config")
	s.r.judge("38.nest", "--nesting: write git's config", free.Wall == "", free.String(), s.here.state(in+"/.git") == before, kept.String())
	// Landlock is off with --nesting: what holds here is the mounts alone. Who could
	// put a link into the layers would choose where the next start's overlays write.
	free, kept = s.outside(out, "create", out+"/new"), s.inside(in, "--nesting", "--", "create", "/.coffer/layers/new")
	s.r.judge("x2.nest", "--nesting: write to the layers directly", free.Wall == "", free.String(), met(kept, "EROFS"), kept.String())
	if s.bed.UID == 0 {
		// Programs keep CAP_SETFCAP, to map id 0 into namespaces of their own.
		free = s.outside(out, "setcap", out+"/capable")
		for n, way := range map[string][]string{"x5.nest": {"setcap"}, "x5.nns": {"ns", "setcap"}} {
			kept = s.inside(in, append(append([]string{"--nesting", "--"}, way...), in+"/"+n)...)
			s.r.judge(n, "--nesting: give a file of the workspace a capability", free.Wall == "", free.String(), met(kept, "ENOTSUP"), kept.String())
		}
	}
	pid := fmt.Sprint(s.there.process("nesting").pid)
	free, kept = s.outside(out, "mem-all", pid), s.inside(in, "--nesting", "--", "mem-all", "1")
	s.r.judge("55.nest", "--nesting: open the first process's memory", free.Wall == "", free.String(), met(kept, "EACCES"), kept.String())
	free, kept = s.outside(out, "exe", pid), s.inside(in, "--nesting", "--", "race-exe")
	s.r.judge("x1.nest", "--nesting: get hold of coffer's program on the host", free.Wall == "", free.String(), met(kept, "NEVER-OPEN"), kept.String()+" "+kept.Note)
	free, kept = s.outside(out, "mem-all", pid), s.inside(in, "--nesting", "--", "race-init")
	s.r.judge("55.nrace", "--nesting: open the first process's memory meanwhile", free.Wall == "", free.String(), met(kept, "NEVER-OPEN"), kept.String()+" "+kept.Note)
}

// keyring: a key of the user's session.
func keyring(s *stage) {
	run := func(argv ...string) outcome {
		return s.run(s.bed.Program(program(s.t), append([]string{"with-key", "coffer-canary"}, argv...)...)).probed()
	}
	free := run(s.probe, "key", "coffer-canary")
	kept := run(s.bed.Coffer, "run", "--", s.probe, "key", "coffer-canary")
	s.r.judge("26", "read a key of the session's keyring", free.Wall == "", free.String(), met(kept, "ENOSYS EPERM"), kept.String())
}

// hostIDs: what the host says about the processes of a sandbox.
func hostIDs(s *stage) {
	for _, root := range []bool{false, true} {
		mark := s.mark(4710)
		if root {
			mark = s.mark(4711)
		}
		args := []string{"run", "--", "/bin/sleep", mark}
		n, name := "x11", "run as root of the host, or with its groups or capabilities"
		if root {
			args, n, name = []string{"run", "--root", "--", "/bin/sleep", mark}, "x11r", "the same as root of the sandbox"
		}
		c := s.bed.Command(args...)
		must(s.t, c.Start())
		var bad []string
		found := 0
		poll(s.t, "the sandbox runs", func() bool {
			for _, pid := range marked(mark) {
				status := statusOf(pid)
				if pid != c.Process.Pid && status["Name"] == "sleep" {
					found++
					bad = append(bad, s.privileges(status, root)...)
				}
			}
			return found > 0
		})
		for _, pid := range descendants(c.Process.Pid) {
			bad = append(bad, s.privileges(statusOf(pid), true)...)
		}
		c.Process.Kill()
		c.Wait()
		if os.Getuid() != 0 {
			s.r.add(row{n: n, name: name, control: "-", inside: strings.Join(append(bad, "none"), ", "), verdict: uncontrolled, why: "only root is root"})
			continue
		}
		ours := s.privileges(statusOf(os.Getpid()), false)
		s.r.judge(n, name, len(ours) > 0, "all of it", found > 0 && len(bad) == 0, strings.Join(append(bad, "none"), ", "))
	}
}
