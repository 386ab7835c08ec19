package escape

import (
	"os"
	"path/filepath"
)

// freshRepository: a workspace without a repository must not get one from inside.
func freshRepository(s *stage) {
	in, out := s.fresh("bare-in"), s.fresh("bare-out")
	free := s.outside(out, "init-hook", out)
	kept := s.inside(in, "--", "init-hook", in)
	s.r.judge("9.init", "make a repository with a hook where there was none", free.Wall == "" && exists(out+"/.git/hooks/post-checkout"), free.String(),
		met(kept, "EROFS EACCES") || kept.Wall == "" && !exists(in+"/.git/hooks"), kept.String())
	must(s.t, os.RemoveAll(out+"/.git"))
	must(s.t, os.Mkdir(out+"/.git", 0o755))
	s.here.own(out)
	free, kept = s.outside(out, "rmdir", out+"/.git"), s.inside(in, "--", "rmdir", in+"/.git")
	s.r.judge("7.git", "remove the place that is kept for .git", free.Wall == "", free.String(), met(kept, "EBUSY"), kept.String())
}

// linkedRepository: .git as a symbolic link cannot be protected, so nothing starts.
func linkedRepository(s *stage) {
	dir, far := s.fresh("linked"), s.fresh("linked-far")
	s.here.repository(far)
	must(s.t, os.Symlink(far+"/.git", dir+"/.git"))
	s.here.own(filepath.Dir(dir))
	free := s.outside(dir, "write", dir+"/.git/hooks/pre-commit")
	before := s.here.state(far)
	got := s.coffer(dir, "run", "--", s.probe, "write", dir+"/.git/hooks/pre-commit")
	s.r.judge("21.git", "start over a .git that is a link", free.Wall == "", free.String(),
		got.code == 125 && s.here.state(far) == before, refusal(got))
}

// bareRepository: a workspace that is itself a git directory cannot be protected, so
// nothing starts.
func bareRepository(s *stage) {
	far := s.fresh("itself")
	s.here.repository(far)
	s.here.own(filepath.Dir(far))
	dir := far + "/.git"
	free := s.outside(dir, "write", dir+"/hooks/pre-commit")
	before := s.here.state(far)
	got := s.coffer(dir, "run", "--", s.probe, "write", dir+"/hooks/pre-commit")
	s.r.judge("21.bare", "start over a git directory", free.Wall == "", free.String(),
		got.code == 125 && s.here.state(far) == before, refusal(got))
}

func refusal(r result) string {
	if r.code == 125 {
		return "start refused"
	}
	return r.probed().String()
}

// worktreeRepository: in a worktree .git is a file, and the repository is elsewhere.
func worktreeRepository(s *stage) {
	build := func(name string) (dir, main string) {
		dir, main = s.fresh(name), s.fresh(name+"-main")
		s.here.repository(main)
		s.here.put(filepath.Join(main, ".git/config"), "[core]\n\tbare = false\n", 0o644)
		tree := filepath.Join(main, ".git/worktrees/w")
		s.here.put(filepath.Join(tree, "gitdir"), dir+"/.git\n", 0o644)
		s.here.put(filepath.Join(tree, "commondir"), "../..\n", 0o644)
		s.here.put(filepath.Join(dir, ".git"), "gitdir: "+tree+"\n", 0o644)
		s.here.own(filepath.Dir(dir))
		return dir, main
	}
	in, inMain := build("tree-in")
	out, outMain := build("tree-out")
	for _, a := range []struct{ n, name, do, path, walls string }{
		{"38.tree", "write the hooks of a worktree's repository", "write", "/.git/hooks/pre-commit", "EROFS EACCES ENOENT"},
		{"38.trcf", "create config.worktree of a worktree", "create", "/.git/worktrees/w/config.worktree", "EROFS EACCES ENOENT"},
	} {
		before := s.here.state(inMain)
		free, kept := s.outside(out, a.do, outMain+a.path), s.inside(in, "--", a.do, inMain+a.path)
		s.r.judge(a.n, a.name, free.Wall == "", free.String(), met(kept, a.walls) && s.here.state(inMain) == before, kept.String())
	}
	before := s.here.state(in + "/.git")
	free, kept := s.outside(out, "write", out+"/.git"), s.inside(in, "--", "write", in+"/.git")
	s.r.judge("35.file", "overwrite a .git that is a file", free.Wall == "", free.String(), met(kept, "EROFS EACCES") && s.here.state(in+"/.git") == before, kept.String())
	free, kept = s.outside(out, "unlink", out+"/.git"), s.inside(in, "--", "unlink", in+"/.git")
	s.r.judge("35.rm", "remove a .git that is a file", free.Wall == "", free.String(), met(kept, "EBUSY") && s.here.state(in+"/.git") == before, kept.String())
}

// separateRepository: .git is a file that names a directory in the workspace.
func separateRepository(s *stage) {
	build := func(name string) string {
		dir := s.fresh(name)
		s.here.repository(dir)
		must(s.t, os.Rename(dir+"/.git", dir+"/real"))
		s.here.put(dir+"/.git", "gitdir: real\n", 0o644)
		s.here.own(filepath.Dir(dir))
		return dir
	}
	in, out := build("sep-in"), build("sep-out")
	before := s.here.state(in + "/real")
	free := s.outside(out, "write", out+"/real/hooks/pre-commit")
	got := s.coffer(in, "run", "--", s.probe, "write", in+"/real/hooks/pre-commit")
	s.r.judge("35.sep", "write the hooks of a repository that .git names", free.Wall == "", free.String(),
		(got.code == 125 || met(got.probed(), "EROFS EACCES")) && s.here.state(in+"/real") == before, refusal(got))
}

// lockedDirectory: a workspace in which no .git can be made, until its owner, who is
// inside too, changes the mode.
func lockedDirectory(s *stage) {
	if s.bed.UID == 0 {
		return // root is not stopped by a mode
	}
	build := func(name string) string {
		dir := s.fresh(name)
		must(s.t, os.Chmod(dir, 0o555))
		return dir
	}
	in, out := build("mode-in"), build("mode-out")
	script := `chmod 755 . && "$0" init-hook "$PWD"`
	c := s.bed.Program("/bin/sh", "-c", script, s.probe)
	c.Dir = out
	free := s.run(c).probed()
	got := s.coffer(in, "run", "--", "/bin/sh", "-c", script, s.probe)
	s.r.judge("9.mode", "make a repository in a directory that was read-only at the start", exists(out+"/.git/hooks"), free.String(),
		!exists(in+"/.git/hooks"), refusal(got))
}

// fullDirectory: a workspace in which no .git can be made for want of space, until
// something is removed.
func fullDirectory(s *stage) {
	in, out := s.fresh("full-in"), s.fresh("full-out")
	script := `rm -rf filler*; "$0" init-hook "$PWD"`
	try := func(dir string, argv ...string) result {
		c := s.bed.Program(program(s.t), append([]string{"few-inodes", dir}, argv...)...)
		return s.run(c)
	}
	planted := func(r result) bool { return containsLine(r.out, "PLANTED") }
	free := try(out, "/bin/sh", "-c", script, s.probe)
	got := try(in, s.bed.Coffer, "run", "--", "/bin/sh", "-c", script, s.probe)
	s.r.judge("9.full", "make a repository on a file system that was full at the start", planted(free), free.probed().String()+free.err,
		!planted(got), refusal(got))
}

// nestedRepository: git runs what repositories below the workspace say, too.
func nestedRepository(s *stage) {
	build := func(name string) string {
		dir := s.fresh(name)
		for _, sub := range []string{"", "/sub", "/a/b/c/deep", "/node_modules/package", "/apart"} {
			s.here.repository(dir + sub)
		}
		must(s.t, os.Rename(dir+"/apart/.git", dir+"/apart.git"))
		s.here.put(dir+"/apart/.git", "gitdir: ../apart.git\n", 0o644)
		must(s.t, os.Mkdir(dir+"/link", 0o755))
		must(s.t, os.Symlink("../apart.git", dir+"/link/.git"))
		s.here.own(filepath.Dir(dir))
		return dir
	}
	in, out := build("nested-in"), build("nested-out")
	for _, a := range []struct{ n, name, do, path, walls string }{
		{"37", "write the hook of a repository below the workspace", "write", "/sub/.git/hooks/pre-commit", "EROFS"},
		{"37.deep", "write the hook of one further down", "write", "/a/b/c/deep/.git/hooks/pre-commit", "EROFS"},
		{"37.dep", "write the hook of one among dependencies", "write", "/node_modules/package/.git/hooks/pre-commit", "EROFS"},
		{"37.cfg", "change the config of a repository below the workspace", "write", "/sub/.git/config", "EROFS"},
		{"37.dir", "create commondir of a repository below the workspace", "create", "/sub/.git/commondir", "EROFS"},
		{"37.apart", "write the hook of one whose .git is a file", "write", "/apart.git/hooks/pre-commit", "EROFS"},
		{"37.file", "have a .git that is a file lead elsewhere", "write", "/apart/.git", "EROFS"},
		{"37.link", "remove a .git that is a link", "unlink", "/link/.git", "EBUSY"},
	} {
		before := s.here.state(in)
		free, kept := s.outside(out, a.do, out+a.path), s.inside(in, "--", a.do, in+a.path)
		s.r.judge(a.n, a.name, free.Wall == "", free.String(), met(kept, a.walls) && s.here.state(in) == before, kept.String())
	}
	for _, a := range []struct{ n, name, from, to string }{
		{"37.mv", "move the .git of a repository below the workspace", "/sub/.git", "/sub/old"},
		{"37.up", "move a directory above one", "/a/b", "/a/old"},
	} {
		free, kept := s.outside(out, "rename", out+a.from, out+a.to), s.inside(in, "--", "rename", in+a.from, in+a.to)
		s.r.judge(a.n, a.name, free.Wall == "", free.String(), met(kept, "EBUSY") && exists(in+a.from), kept.String())
	}
}
