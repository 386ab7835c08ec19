package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// supervisorDeath: a sandbox does not outlive who answers for it, and cannot reach it.
func supervisorDeath(s *stage) {
	mark := s.mark(4715)
	c := s.bed.Command("run", "--", "/bin/sh", "-c", "setsid -f /bin/sleep "+mark+"; /bin/sleep "+mark)
	must(s.t, c.Start())
	ran := poll(s.t, "the sandbox runs", func() bool { return len(marked(mark)) >= 2 })
	c.Process.Signal(syscall.SIGKILL)
	c.Wait()
	gone := poll(s.t, "the sandbox is gone", func() bool { return len(marked(mark)) == 0 })
	s.r.judge("109", "outlive the supervisor", ran, "it runs", gone, "ended with it")

	dir := s.fresh("super")
	s.coffer(dir, "exec", "--create", "--name", "super", "--", "true")
	pid := 0
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		cmd, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		args := strings.Split(string(cmd), "\x00")
		if err == nil && len(args) > 1 && args[1] == "supervise" && statusOf(n)["Uid"] == fmt.Sprintf("%d %d %d %d", s.bed.UID, s.bed.UID, s.bed.UID, s.bed.UID) {
			if home, _ := os.ReadFile("/proc/" + e.Name() + "/environ"); strings.Contains(string(home), "HOME="+s.bed.Home+"\x00") {
				pid = n
			}
		}
	}
	kept := s.coffer(dir, "exec", "-m", "super", "--", s.probe, "kill", strconv.Itoa(pid)).probed()
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	s.r.judge("109.pid", "kill the supervisor", pid > 0, "it runs", kept.Wall == "ESRCH" && err == nil, kept.String())
	s.jailedClient(dir)
	s.coffer(dir, "rm", "--force", "super")
}

// jailedClient: who is in a jail is not the user to a supervisor, though it has the user's
// id, no process namespace of its own, and every Unix socket open to it.
func (s *stage) jailedClient(dir string) {
	const bare = "no namespaces"
	for _, v := range []struct {
		id, what string
		flags    []string
		role     string // on what host
		layer    string // by the jail's own word
	}{
		{"109.jail--in-place", "that replaced coffer", []string{"--in-place"}, "", bare},
		{"109.jail-landlock", "on a host without namespaces", nil, "no-userns", bare},
		{"109.jail", "with namespaces", nil, "", "mounts of its own"},
	} {
		coffer := func(args ...string) result {
			if v.role == "" {
				return s.coffer(dir, args...)
			}
			c := s.bed.Program(program(s.t), append([]string{v.role, s.bed.Coffer}, args...)...)
			c.Dir = dir
			return s.run(c)
		}
		in := slices.Concat([]string{"jail", "-q", "--unix-sockets", "--net", "host", "-C", dir}, v.flags)
		wall := coffer(append(in, "--explain")...)
		in = append(in, "-e", "COFFER_SANDBOX=", "--", s.bed.Coffer) // nothing but the wall stops it
		ask := []string{"exec", "-m", "super", "--", "echo", "reached"}
		// The same place without a jail is heard, and with one the sandbox is seen.
		sees := coffer(append(in, "list", "-q")...)
		free := coffer(ask...)
		kept := coffer(append(in, ask...)...)
		control := strings.Contains(free.out, "reached") && strings.Contains(wall.out, v.layer) && (sees.out != "" || v.layer != bare)
		outside := strings.TrimSpace(free.out)
		if !control {
			outside = fmt.Sprint(outside, free.err, wall.out, sees.out, sees.err)
		}
		s.r.judge(v.id, "command a sandbox from a jail "+v.what, control, outside,
			!strings.Contains(kept.out, "reached"), fmt.Sprint(kept.code, " ", kept.err))
	}
}

// firstProcess: signals to the agent. It should survive; if it does not, it ends the
// sandbox and nothing but the sandbox.
func firstProcess(s *stage) {
	dir := s.fresh("signals")
	free := s.outside(dir, "signals", strconv.Itoa(s.there.process("signals").pid))
	dead := poll(s.t, "the victim has died", func() bool { return s.there.state("pid:signals") == "dead" })
	for i, root := range []string{"--root=false", "--root=true"} {
		mark := s.mark(4717 + i)
		got := s.coffer(dir, "run", root, "--", "/bin/sh", "-c", `setsid -f /bin/sleep `+mark+`; "$0" signals 1 && "$0" read /proc/self/status && echo alive`, s.probe)
		gone := poll(s.t, "the sandbox is gone", func() bool { return len(marked(mark)) == 0 })
		how := "survives"
		if !containsLine(got.out, "alive") {
			how = fmt.Sprint("ends itself: ", got.code)
		}
		s.r.judge("x12"+strings.TrimPrefix(root, "--root=")[:1], "send every signal to the first process ("+root+")", dead, free.String(), gone && (got.code == 0 || got.code == 125 || got.code == 137), how)
	}
	free = s.outside(dir, "crash", strconv.Itoa(s.there.process("crash").pid))
	poll(s.t, "the victim has died", func() bool { return s.there.state("pid:crash") == "dead" })
	mark := s.mark(4716)
	got := s.coffer(dir, "run", "--", "/bin/sh", "-c", `setsid -f /bin/sleep `+mark+`; "$0" crash 1; for i in 1 2 3; do "$0" read /proc/self/status; done`, s.probe)
	gone := poll(s.t, "the sandbox is gone", func() bool { return len(marked(mark)) == 0 })
	s.r.judge("x12.segv", "forge a memory error of the first process", free.Wall == "", free.String(), gone && !strings.Contains(got.err, "goroutine"), fmt.Sprint("ends itself at most: ", got.code))
}

// controlAbuse: breaking the rules of the agent's socket hurts nobody outside. Who
// floods it may find that nothing more is started in his sandbox for a while.
func controlAbuse(s *stage) {
	dir := s.fresh("abuse")
	s.coffer(dir, "exec", "--create", "--name", "abuse", "--", "true")
	for _, way := range []string{"garbage", "malformed", "oversized", "frames", "credit", "replay", "flood"} {
		kept := s.coffer(dir, "exec", "-m", "abuse", "--", s.probe, "abuse", way).probed()
		after := s.coffer(dir, "exec", "-m", "abuse", "--", "echo", "alive")
		s.r.judge("110."+way, "break the control protocol: "+way, kept.Wall == "", "sent", strings.Contains(after.out, "alive") || way == "flood" && after.code == 125, fmt.Sprint("the next command: ", after.code, " ", after.err))
	}
	ls := s.coffer(dir, "list", "-q")
	stop := s.coffer(dir, "stop", "--force", "abuse")
	s.r.judge("110.host", "the host's side after all of it", ls.out != "", "-", ls.code == 0 && stop.code == 0, fmt.Sprint("stop: ", stop.code))
	s.coffer(dir, "rm", "--force", "abuse")
}

// missingLayer: a wall that cannot be had means that nothing is started, if it is required;
// otherwise a weaker one is taken, and said to be.
func missingLayer(s *stage) {
	if s.bed.UID == 0 {
		return // root's user namespaces cannot be taken away without taking them from all
	}
	dir, outside := s.fresh("layer"), s.fresh("beside")
	run := func(role, command string, flags ...string) result {
		args := append(append([]string{role, s.bed.Coffer, "run"}, flags...), "--", "/bin/sh", "-c", command)
		c := s.bed.Program(program(s.t), args...)
		c.Dir = dir
		return s.run(c)
	}
	free := run("userns", ": > "+dir+"/ran-userns", "--sandbox=require")
	got := run("no-userns", ": > "+dir+"/ran-no-userns", "--sandbox=require")
	s.r.judge("115", "start where there are no user namespaces", free.code == 0 && exists(dir+"/ran-userns"), fmt.Sprint("exit status ", free.code, free.err),
		got.code == 125 && !exists(dir+"/ran-no-userns"), refusal(got))
	free = run("no-userns", ": > "+outside+"/free", "--sandbox=off", "--yes")
	got = run("no-userns", "echo $COFFER_SANDBOX; : > "+dir+"/jailed; : > "+outside+"/jailed")
	s.r.judge("115.jail", "write outside where a jail stands in", exists(outside+"/free"), fmt.Sprint("exit status ", free.code, free.err),
		exists(dir+"/jailed") && !exists(outside+"/jailed") && strings.Contains(got.out, "jail") && strings.Contains(got.err, "taking a jail instead"), refusal(got))
}

// plantedPrograms: names that coffer might look up in PATH, where the workspace is.
func plantedPrograms(s *stage) {
	dir := s.fresh("path")
	marker := filepath.Join(s.here.outside, "ran-on-the-host")
	for _, name := range []string{"git", "newuidmap", "newgidmap", "mount", "sh", "sudo", "coffer", "ip", "fusermount3", "bwrap", "systemd-run"} {
		s.here.put(filepath.Join(dir, name), "#!/bin/sh\necho $0 >> "+marker+"\n", 0o755)
	}
	s.here.own(dir)
	env := append(s.bed.Env(), "PATH="+dir+":.:/usr/bin:/bin")
	s.here.repository(dir)
	s.here.own(dir)
	for _, args := range [][]string{{"run", "--", "true"}, {"run", "--workspace", "cow", "--", "touch", "new"}, {"diff"}, {"apply"}, {"exec", "--create", "--name", "path", "--", "true"}, {"rm", "--force", "--everywhere"}} {
		c := s.bed.Command(args...)
		c.Dir, c.Env = dir, env
		s.run(c)
	}
	ran := exists(marker)
	c := s.bed.Program("/bin/sh", "-c", "git status")
	c.Dir, c.Env = dir, env
	s.run(c)
	s.r.judge("117", "have coffer run programs from the workspace", exists(marker), "runs", !ran, "none run")
}
