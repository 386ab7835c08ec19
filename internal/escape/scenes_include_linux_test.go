package escape

import (
	"os"
	"path/filepath"
	"strings"
)

// lateInclude: a repository is shown to programs that run, and taken away again, while they
// look for the moment in which something of it is not hidden yet, or not any more.
func lateInclude(s *stage) {
	lib, dir := s.fresh("late-lib"), s.fresh("late-in")
	s.here.put(filepath.Join(lib, "conf/.env"), secretWord, 0o644)
	s.here.put(filepath.Join(lib, "lib.txt"), "lib\n", 0o644)
	s.here.put(filepath.Join(dir, "file"), "1\n", 0o644)
	s.here.own(filepath.Dir(dir))
	for _, d := range []string{lib, dir} {
		s.script(d, `git init -q . && git add -A && git -c user.name=x -c user.email=x@example.com commit -qm first`)
	}
	// What they do works where nothing is hidden.
	const look = `cat $AT/conf/.env >>$HIT 2>/dev/null; test -e $AT/lib.txt && echo >$HIT.was; `
	free := filepath.Join(s.fresh("late-out"), "tree")
	s.script(lib, `git worktree add -q --detach `+free+` && AT=`+free+` HIT=`+free+`.hit; `+look)
	hit, _ := os.ReadFile(free + ".hit")

	const at = `AT=$PWD/.coffer/include/late-lib HIT=$HOME/hit; `
	s.coffer(dir, "exec", "--create", "--workspace", "worktree", "--name", "late", "-d", "--", "sh", "-c", at+`while :; do `+look+`done`)
	s.coffer(dir, "exec", "-m", "late", "-d", "--", "sh", "-c", at+`while :; do if cd $AT 2>/dev/null; then while test -e lib.txt; do cat conf/.env >>$HIT 2>/dev/null; done; cat conf/.env >>$HIT 2>/dev/null; fi; cd /; done`)
	failed := ""
	for range 5 {
		for _, args := range [][]string{{"include", "--repo", lib, "-m", "late"}, {"uninclude", "late-lib", "-m", "late", "--force", "--delete-branch"}} {
			if got := s.coffer(dir, args...); got.code != 0 {
				failed += refusal(got)
			}
		}
	}
	seen := s.coffer(dir, "exec", "-m", "late", "--", "sh", "-c", `test -e $HOME/hit.was && echo was; cat $HOME/hit`)
	s.r.judge("m10", "read a hidden file while its repository is shown, or taken away", string(hit) == secretWord, "read",
		failed == "" && seen.out == "was\n", seen.out+failed)
	lateWalls(s, dir, lib)
	s.coffer(dir, "rm", "--force", "--delete-branch", "late")
}

// lateWalls: what came late is walled in as what was there from the start.
func lateWalls(s *stage, dir, lib string) {
	trap := s.fresh("late-trap")
	s.coffer(dir, "exec", "-m", "late", "--", "sh", "-c", "mkdir -p .coffer/include && ln -s "+trap+" .coffer/include/late-lib")
	got := s.coffer(dir, "include", "--repo", lib, "-m", "late")
	s.script(trap, "ln -s . link && echo >link/made")
	s.r.judge("m10.link", "have it shown where a link leads", exists(filepath.Join(trap, "made")), "made", got.code != 0 && !exists(filepath.Join(trap, "lib.txt")), refusal(got))
	s.coffer(dir, "exec", "-m", "late", "--", "rm", ".coffer/include/late-lib")
	s.coffer(dir, "include", "--repo", lib, "-m", "late")
	for _, a := range []struct{ n, name, do, walls string }{
		{"m10.read", "read what is hidden in it", "read .coffer/include/late-lib/conf/.env", "EACCES"},
		{"m10.dir", "move a directory above", "rename .coffer/include/late-lib/conf .coffer/include/late-lib/moved", "EBUSY"},
		{"m10.up", "move it elsewhere", "rename .coffer moved", "EBUSY"},
		{"m10.git", "replace the file over its .git", "unlink .coffer/include/late-lib/.git", "EBUSY"},
		{"m10.obj", "write to its objects outside", "create /.coffer/include/late-lib/objects/0/evil", "EROFS EACCES"},
		{"m10.ref", "write to its refs outside", "create /.coffer/include/late-lib/host.git/evil", "EROFS EACCES"},
		{"m10.root", "write to the root, which coffer wrote to", "create /.coffer/include/evil", "EROFS EACCES"},
	} {
		kept := s.coffer(dir, append([]string{"exec", "-m", "late", "--", s.probe}, strings.Fields(a.do)...)...).probed()
		out := s.fresh("late-control")
		s.here.put(filepath.Join(out, "x/one"), secretWord, 0o644)
		s.here.own(filepath.Dir(out))
		control := map[string][]string{"read": {"read", out + "/x/one"}, "rename": {"rename", out + "/x", out + "/y"}, "unlink": {"unlink", out + "/x/one"}, "create": {"create", out + "/x/evil"}}
		free := s.outside(out, control[strings.Fields(a.do)[0]]...)
		s.r.judge(a.n, a.name, free.Wall == "", free.String(), met(kept, a.walls), kept.String())
		must(s.t, os.RemoveAll(out))
	}
}
