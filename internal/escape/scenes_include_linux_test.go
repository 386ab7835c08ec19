package escape

import (
	"fmt"
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
	s.coffer(dir, "exec", "-m", "late", "-d", "--", "sh", "-c", at+`while :; do if cd $AT 2>/dev/null; then while test -e lib.txt; do cat conf/.env >>$HIT 2>/dev/null; echo >$HIT.stood; done; cat conf/.env >>$HIT 2>/dev/null; fi; cd /; done`)
	failed := ""
	for range 5 {
		for _, args := range [][]string{
			{"include", "--repo", lib, "-m", "late"},
			// Both have been in it, or nothing is shown by what they did not find.
			{"exec", "-m", "late", "--", "sh", "-c", `for i in $(seq 1200); do rm $HOME/hit.was $HOME/hit.stood 2>/dev/null && exit; sleep 0.05; done; exit 1`},
			{"uninclude", "late-lib", "-m", "late", "--force", "--delete-branch"},
		} {
			if got := s.coffer(dir, args...); got.code != 0 {
				failed += args[0] + ": " + got.err
			}
		}
	}
	seen := s.coffer(dir, "exec", "-m", "late", "--", "sh", "-c", `cat $HOME/hit && echo end`)
	s.r.judge("m10", "read a hidden file while its repository is shown, or taken away", string(hit) == secretWord, "read",
		failed == "" && seen.out == "end\n", seen.out+seen.err+failed)
	s.coffer(dir, "stop", "--force", "late") // these two would only be in the way of others
	lateUp(s, dir, lib)
	lateStays(s, dir, lib)
	lateMoved(s, dir, lib)
	lateWalls(s, dir, lib)
	s.coffer(dir, "rm", "--force", "--delete-branch", "late")
}

// lateUp: a program that stands in what was taken away goes up from there, while more is put
// together where nobody is to look.
func lateUp(s *stage, dir, lib string) {
	const up = `cd $AT && echo >$HIT.in && while test ! -e $HIT.go; do sleep 0.05; done; ls .. >$HIT.up; cat ../*/lib.txt ../*/*/lib.txt >>$HIT.up; echo end >>$HIT.up`
	out := s.fresh("late-up")
	s.script(out, `mkdir one two; cp `+lib+`/lib.txt two; AT=one HIT=$PWD/hit; touch hit.go; `+up)
	free, _ := os.ReadFile(filepath.Join(out, "hit.up"))

	failed := ""
	for _, args := range [][]string{
		{"include", "--repo", lib, "-m", "late"},
		{"exec", "-m", "late", "-d", "--", "sh", "-c", `AT=$PWD/.coffer/include/late-lib HIT=$HOME/up; ` + up},
		{"exec", "-m", "late", "--", "sh", "-c", `for i in $(seq 1200); do test -e $HOME/up.in && exit; sleep 0.05; done; exit 1`},
		{"uninclude", "late-lib", "-m", "late", "--force", "--delete-branch"},
		{"include", "--repo", lib, "-m", "late"},
		{"uninclude", "late-lib", "-m", "late", "--force", "--delete-branch"},
	} {
		if got := s.coffer(dir, args...); got.code != 0 {
			failed += args[0] + ": " + got.err
		}
	}
	seen := s.coffer(dir, "exec", "-m", "late", "--", "sh", "-c", `touch $HOME/up.go; for i in $(seq 1200); do grep -q end $HOME/up.up && break; sleep 0.05; done; cat $HOME/up.up`)
	s.r.judge("m10.dots", "go up from what was taken away, to what is put together", string(free) == "hit.go\nhit.in\nhit.up\none\ntwo\nlib\nend\n", "went up",
		failed == "" && seen.out == "end\n", strings.TrimSpace(seen.out+seen.err+failed))
}

// lateStays: a program has a repository that is taken out stay, by a change in the last moment,
// and reads what appears in it later where it stood before.
func lateStays(s *stage, dir, lib string) {
	const stand = `cd $AT && exec 3>>lib.txt && echo >$HIT.in && while test -e $AT/lib.txt; do :; done; echo more >&3; while test ! -e $HIT.go; do sleep 0.05; done; cat after/plain after/.env >$HIT.read 2>&1; echo end >>$HIT.read`
	out := s.fresh("late-stays")
	s.script(out, `mkdir -p one/after; echo plain >one/after/plain; echo secret >one/after/.env; AT=one HIT=$PWD/hit; touch hit.go; `+stand)
	free, _ := os.ReadFile(filepath.Join(out, "hit.read"))

	refused, failed := false, ""
	hit := ""
	for n := 0; n < 60 && !refused && failed == ""; n++ {
		hit = fmt.Sprintf("HIT=$HOME/stay%d; ", n)
		for _, args := range [][]string{
			{"include", "--repo", lib, "-m", "late"},
			{"exec", "-m", "late", "-d", "--", "sh", "-c", hit + `AT=$PWD/.coffer/include/late-lib; ` + stand},
			{"exec", "-m", "late", "--", "sh", "-c", hit + `for i in $(seq 1200); do rm $HIT.in 2>/dev/null && exit; sleep 0.05; done; exit 1`},
		} {
			if got := s.coffer(dir, args...); got.code != 0 {
				failed += args[0] + ": " + got.err
			}
		}
		refused = s.coffer(dir, "uninclude", "late-lib", "-m", "late", "--delete-branch").code != 0
	}
	tree := strings.TrimSpace(s.coffer(dir, "cd", "late", "--repo", "late-lib").out)
	s.script(tree, `mkdir after; echo plain >after/plain; echo secret >after/.env`)
	seen := s.coffer(dir, "exec", "-m", "late", "--", "sh", "-c", hit+`cd .coffer/include/late-lib; for i in $(seq 1200); do cat after/.env >/dev/null 2>&1 || break; sleep 0.05; done
		touch $HIT.go; for i in $(seq 1200); do grep -q end $HIT.read && break; sleep 0.05; done; cat $HIT.read`)
	s.r.judge("m10.stay", "read what appears where it stood when its repository stayed", strings.HasSuffix(string(free), "plain\nsecret\nend\n"), "read",
		failed == "" && refused && seen.out == "plain\ncat: after/.env: Permission denied\nend\n", strings.TrimSpace(seen.out+seen.err+failed))
	s.coffer(dir, "uninclude", "late-lib", "-m", "late", "--force", "--delete-branch")
}

// lateMoved: a program moves the place away in which a repository is to be shown, over and over,
// and fast enough to meet, in a quarter of the tries, the moment between the look at the place
// and the mount on it.
func lateMoved(s *stage, dir, lib string) {
	const place = ".coffer/include/late-lib"
	out := s.fresh("late-moved")
	s.script(out, `mkdir -p `+place+`; cp `+lib+`/lib.txt `+place+`; (while test ! -e stop.began; do :; done; touch stop) & `+s.probe+` mover `+place+` away lib.txt stop >seen; wait`)
	free, _ := os.ReadFile(filepath.Join(out, "seen"))

	var seen, failed string
	for range 3 { // the first time in a sandbox takes longest
		s.coffer(dir, "exec", "--create", "--workspace", "worktree", "--name", "move", "-d", "--", "sh", "-c", `mkdir -p .coffer/include; `+s.probe+` mover `+place+` away lib.txt $HOME/move >$HOME/move.seen; echo end >>$HOME/move.seen`)
		began := s.coffer(dir, "exec", "-m", "move", "--", "sh", "-c", `for i in $(seq 1200); do test -e $HOME/move.began && exit; sleep 0.05; done; exit 1`)
		if began.code != 0 {
			failed += began.err
		}
		for range 5 {
			s.coffer(dir, "include", "--repo", lib, "-m", "move") // where it belongs, or not at all
			s.coffer(dir, "uninclude", "late-lib", "-m", "move", "--force", "--delete-branch")
		}
		got := s.coffer(dir, "exec", "-m", "move", "--", "sh", "-c", `touch $HOME/move; for i in $(seq 1200); do grep -q end $HOME/move.seen && break; sleep 0.05; done; cat $HOME/move.seen`)
		seen += got.out
		if got.code != 0 {
			failed += got.err
		}
		s.coffer(dir, "rm", "--force", "--delete-branch", "move")
	}
	s.r.judge("m10.move", "have it shown where its place was moved to", string(free) == "lib\n", "seen",
		failed == "" && seen == strings.Repeat("end\n", 3), strings.TrimSpace(seen+failed))
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
