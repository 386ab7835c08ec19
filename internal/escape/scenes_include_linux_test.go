package escape

import (
	"os"
	"path/filepath"
	"strings"
)

// includedRepository: a repository that is included in a sandbox has the walls that the sandbox's
// own has, from the next start on. Until then, what lies in its place cannot lead elsewhere.
func includedRepository(s *stage) {
	lib, dir := s.fresh("late-lib"), s.fresh("late-in")
	s.here.put(filepath.Join(lib, "conf/.env"), secretWord, 0o644)
	s.here.put(filepath.Join(lib, "lib.txt"), "lib\n", 0o644)
	s.here.put(filepath.Join(dir, "file"), "1\n", 0o644)
	s.here.own(filepath.Dir(dir))
	for _, d := range []string{lib, dir} {
		s.script(d, `git init -q . && git add -A && git -c user.name=x -c user.email=x@example.com commit -qm first`)
	}
	// Where nothing is hidden, the file can be read.
	free := filepath.Join(s.fresh("late-out"), "tree")
	s.script(lib, `git worktree add -q --detach `+free+` && cat `+free+`/conf/.env >`+free+`.read`)
	read, _ := os.ReadFile(free + ".read")

	s.coffer(dir, "exec", "--create", "--workspace", "worktree", "--name", "late", "-d", "--", "sleep", "1000")
	got := s.coffer(dir, "include", "--repo", lib, "-m", "late")
	seen := s.coffer(dir, "exec", "-m", "late", "--", "sh", "-c", `cat .coffer/include/late-lib/lib.txt .coffer/include/late-lib/conf/.env; ls /.coffer/include`)
	s.r.judge("m10", "see a repository that was included while programs run", string(read) == secretWord, "read",
		got.code == 0 && seen.out == "", seen.out+seen.err+got.err)
	s.coffer(dir, "stop", "--force", "late")
	s.coffer(dir, "uninclude", "late-lib", "-m", "late", "--force", "--delete-branch")
	includedWalls(s, dir, lib)
	s.coffer(dir, "rm", "--force", "--delete-branch", "late")
}

// includedWalls: the walls around it are the same ones.
func includedWalls(s *stage, dir, lib string) {
	trap := s.fresh("late-trap")
	s.coffer(dir, "exec", "-m", "late", "--", "sh", "-c", "mkdir -p .coffer/include && ln -s "+trap+" .coffer/include/late-lib")
	got := s.coffer(dir, "include", "--repo", lib, "-m", "late")
	s.script(trap, "ln -s . link && echo >link/made")
	s.r.judge("m10.link", "have it shown where a link leads", exists(filepath.Join(trap, "made")), "made", got.code != 0 && !exists(filepath.Join(trap, "lib.txt")), refusal(got))
	s.coffer(dir, "exec", "-m", "late", "--", "rm", ".coffer/include/late-lib")
	s.coffer(dir, "include", "--repo", lib, "-m", "late")
	out := s.fresh("late-control")
	for _, a := range []struct{ n, name, do, wall string }{
		{"m10.read", "read what is hidden in it", "cat $AT/conf/.env", "Permission denied"},
		{"m10.dir", "move a directory above", "mv -T $AT/conf $AT/moved", "Device or resource busy"},
		{"m10.up", "move it elsewhere", "mv -T .coffer moved", "Device or resource busy"},
		{"m10.git", "replace the file over its .git", "rm $AT/.git", "Device or resource busy"},
		{"m10.obj", "write to its objects outside", "echo >$RO/objects/0/evil", "Read-only file system"},
		{"m10.ref", "write to its refs outside", "echo >$RO/host.git/evil", "Read-only file system"},
		{"m10.root", "write to the root, which coffer wrote to", "echo >$IN/evil", "Read-only file system"},
	} {
		do := "AT=.coffer/include/late-lib IN=/.coffer/include/late-lib RO=/.coffer/included/late-lib; " + a.do
		kept := s.coffer(dir, "exec", "-m", "late", "--", "bash", "-c", do)
		s.script(out, "rm -rf .coffer moved in; mkdir -p .coffer/include/late-lib/conf in/objects/0 in/host.git; cd .coffer/include/late-lib; echo x >.git; echo x >conf/.env")
		c := s.bed.Program("/bin/bash", "-c", "AT=.coffer/include/late-lib IN=in RO=in; "+a.do)
		c.Dir = out
		free := s.run(c)
		s.r.judge(a.n, a.name, free.code == 0, free.err, kept.code != 0 && strings.Contains(kept.err, a.wall), kept.out+kept.err)
	}
}
