package escape

import (
	"os"
	"path/filepath"
)

// swappedUndo: a sandbox that can write above another one's workspace puts a link in its
// place, and what undo brings back is written to where it leads.
func swappedUndo(s *stage) {
	build := func(name string) (dir, far string) {
		dir, far = s.fresh(name), s.fresh(name+"-far")
		sub := filepath.Join(dir, "sub")
		s.here.put(filepath.Join(sub, "file"), "1\n", 0o644)
		s.here.put(filepath.Join(far, "file"), "precious\n", 0o644)
		s.here.own(filepath.Dir(dir))
		c := s.bed.Program("/bin/sh", "-c", `git init -q . && git add file && git -c user.name=x -c user.email=x@example.com commit -qm first`)
		c.Dir = sub
		if got := s.run(c); got.code != 0 {
			s.t.Fatal(got.err)
		}
		return dir, far
	}
	swap := func(far string) string { return "mv sub aside && ln -s " + far + " sub" }
	out, outFar := build("undo-out")
	c := s.bed.Program("/bin/sh", "-c", swap(outFar)+" && echo 1 >sub/file")
	c.Dir = out
	s.run(c)
	spoilt, _ := os.ReadFile(outFar + "/file")

	in, inFar := build("undo-in")
	s.coffer(in+"/sub", "exec", "--create", "--workspace", "direct", "--name", "below", "--", "/bin/sh", "-c", "echo 2 >file")
	s.coffer(in+"/sub", "exec", "-m", "below", "--", "/bin/sh", "-c", "echo 3 >file; echo evil >new")
	// A directory with a repository in it stays where it is, unless the user says otherwise.
	s.here.put(in+"/coffer.toml", "git.nested = \"open\"\n", 0o644)
	s.coffer(in, "exec", "--create", "--trust", "--workspace", "direct", "--name", "above", "--", "/bin/sh", "-c", swap(inFar))
	got := s.coffer(in, "undo", "--force", "below", "1")
	s.coffer(in, "stop", "--force", "below")
	s.coffer(in, "undo", "--force", "below", "1")
	kept, _ := os.ReadFile(inFar + "/file")
	link, _ := os.Lstat(in + "/sub")
	s.r.judge("129", "have undo write through a link above a workspace", string(spoilt) == "1\n", "ok+changed",
		link != nil && link.Mode()&os.ModeSymlink != 0 && string(kept) == "precious\n" && !exists(inFar+"/new") && got.code == 125, refusal(got))
	s.coffer(in, "rm", "--force", "below", "above")
}
