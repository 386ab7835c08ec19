package escape

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/limits"
)

// statusOf reads /proc/PID/status.
func statusOf(pid int) map[string]string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	all := map[string]string{}
	for line := range strings.SplitSeq(string(b), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			all[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	return all
}

// descendants are the processes below one.
func descendants(pid int) (all []int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for f := range strings.FieldsSeq(string(b)) {
		var child int
		fmt.Sscan(f, &child)
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

// privileges lists what a process of a sandbox must not have on the host. Its agent
// and its root have capabilities, over the sandbox's namespaces only.
func (s *stage) privileges(status map[string]string, capable bool) (bad []string) {
	if len(status) == 0 {
		return nil
	}
	for _, ids := range []string{"Uid", "Gid", "Groups"} {
		for id := range strings.FieldsSeq(status[ids]) {
			if id == "0" {
				bad = append(bad, ids+" 0")
			}
		}
	}
	if !capable && strings.Trim(status["CapPrm"], "0") != "" {
		bad = append(bad, "CapPrm "+status["CapPrm"])
	}
	return bad
}

// forkLimit: as many processes as one likes.
func forkLimit(s *stage) {
	free := s.outside(s.bed.Work, "forks", "50")
	kept := s.inside(s.bed.Work, "--pids", "40", "--", "forks", "50")
	s.r.judge("98", "start 50 processes where 40 are allowed", free.Wall == "", free.String(), kept.Wall == "EAGAIN", kept.String()+", "+kept.Note)
	kept = s.inside(s.bed.Work, "--pids", "40", "--root", "--", "forks", "50")
	s.r.judge("98r", "the same as root of the sandbox", free.Wall == "", free.String(), kept.Wall == "EAGAIN", kept.String()+", "+kept.Note)
}

// memoryLimit: more memory than allowed, where this host can limit it at all.
func memoryLimit(s *stage) {
	free := s.outside(s.bed.Work, "memory", "128")
	got := s.coffer(s.bed.Work, "run", "--memory", "64m", "--", s.probe, "memory", "128")
	if got.code == 125 {
		s.r.judge("99", "use 128 MB of 64: this host cannot limit it, so nothing starts", free.Wall == "", free.String(), strings.Contains(got.err, "cannot limit memory"), "start refused")
		return
	}
	s.r.judge("99", "use 128 MB where 64 are allowed", free.Wall == "", free.String(), got.code == 137, fmt.Sprint("exit status ", got.code))
}

// socketBuffers: memory that the kernel has for a sandbox's connections. Version 1 of control groups
// counts it apart, and only if it is asked to.
func socketBuffers(s *stage) {
	free := s.outside(s.bed.Work, "buffers", "128")
	got := s.coffer(s.bed.Work, "run", "--memory", "64m", "--", s.probe, "buffers", "128")
	if got.code == 125 {
		s.r.judge("99.tcp", "fill buffers with 128 MB of 64: this host cannot limit it, so nothing starts", free.Wall == "", free.String(), strings.Contains(got.err, "cannot limit memory"), "start refused")
		return
	}
	kept := got.probed()
	s.r.judge("99.tcp", "fill buffers of connections with 128 MB where 64 are allowed", free.Wall == "", free.String()+", "+free.Note,
		got.code == 137 || kept.Wall == "ENOBUFS", fmt.Sprint("exit status ", got.code, " ", kept.Note))
}

func fileLimit(s *stage) {
	free := s.outside(s.bed.Work, "open-files", "200")
	kept := s.inside(s.bed.Work, "--open-files", "64", "--", "open-files", "200")
	s.r.judge("101", "open 200 files where 64 are allowed", free.Wall == "", free.String(), kept.Wall == "EMFILE", kept.String())
}

// ceilings: what the kernel counts by user, of which a sandbox must leave its user some.
func ceilings(s *stage) {
	const list = "cd /proc/sys/user && for n in *; do echo $n $(cat $n); done"
	numbers := func(r result) map[string]int {
		all := map[string]int{}
		for line := range strings.Lines(r.out) {
			var name string
			var n int
			fmt.Sscan(line, &name, &n)
			all[name] = n
		}
		return all
	}
	host := numbers(s.run(s.bed.Program("/bin/sh", "-c", list)))
	for _, root := range []string{"--root=false", "--root=true"} {
		own := numbers(s.coffer(s.bed.Work, "run", root, "--", "/bin/sh", "-c", list))
		bad := ""
		for name, n := range host {
			// Root's own namespace has numbers of its own, below those of the sandbox.
			if own[name] == 0 || root == "--root=false" && own[name] > (n+1)/2 {
				bad += fmt.Sprintf("%s %d of %d ", name, own[name], n)
			}
		}
		most := fmt.Sprint((host["max_inotify_instances"]+1)/2 + 1)
		free := s.outside(s.bed.Work, "inotify", most)
		kept := s.inside(s.bed.Work, root, "--", "inotify", most)
		s.r.judge("101.ino"+strings.TrimPrefix(root, "--root=")[:1], "take more than half of the user's inotify instances ("+root+")",
			free.Wall == "" && len(host) > 0, free.String(), kept.Wall == "EMFILE" && bad == "", kept.String()+", "+kept.Note+bad)
	}
}

// diskSpace: more than the disk has. A sandbox that fills it is frozen before it is full if it has a
// cgroup, and goes on when there is room; otherwise the user is told. One call that would allocate all
// of it is refused.
func diskSpace(s *stage) {
	// It is so large that a busy machine has time to see it filled.
	const all = 1 << 30
	bytes, files := fmt.Sprint("size=", all), "nr_inodes=200000"
	try := func(name, options string, argv ...string) (d filled) {
		d.result = s.run(s.bed.Program(program(s.t), append([]string{"small-disk", s.fresh(name), options}, argv...)...))
		for line := range strings.SplitSeq(d.out, "\n") {
			fmt.Sscanf(line, "FROZEN %d %d", &d.frozen[0], &d.frozen[1])
			fmt.Sscanf(line, "LEFT %d %d", &d.left[0], &d.left[1])
		}
		return d
	}
	// An ordinary user may not make cgroups on most hosts.
	mayTell := s.bed.UID != 0 || !limits.Probe().CPUs.Available()
	wentOn := func(d filled, free int64) bool {
		if mayTell && containsLine(d.out, "TOLD") {
			return true
		}
		return d.probed().Wall != "ENOSPC" && free > 0 && containsLine(d.out, "WENT-ON")
	}
	said := func(d filled, free, unit int64) string {
		if containsLine(d.out, "TOLD") {
			return "the user is told"
		}
		return fmt.Sprintf("frozen, %d free", free/unit)
	}
	for _, a := range []struct {
		n, name, options string
		what             []string
		full             func(filled) bool // outside
		contained        func(filled) bool
		said             func(filled) string
	}{
		{"100", "fill the disk", bytes, []string{"fill-disk", "fill"},
			func(d filled) bool { return d.probed().Wall == "ENOSPC" && d.left[0] == 0 },
			func(d filled) bool { return wentOn(d, d.frozen[0]) },
			func(d filled) string { return said(d, d.frozen[0], 1<<20) + " MiB" }},
		{"100.i", "make as many files as the disk can have", files, []string{"fill-files", "fill"},
			func(d filled) bool { return d.probed().Wall == "ENOSPC" && d.left[1] == 0 },
			func(d filled) bool { return wentOn(d, d.frozen[1]) },
			func(d filled) string { return said(d, d.frozen[1], 1) }},
		{"100.a", "allocate all of the disk by one call", bytes, []string{"allocate", "fill"},
			func(d filled) bool { return d.probed().Wall == "" && d.left[0] == 0 },
			func(d filled) bool { return d.probed().Wall == "ENOTSUP" && d.left[0] > all/2 },
			func(d filled) string { return d.probed().String() }},
	} {
		free := try(a.n+"-out", a.options, append([]string{s.probe}, a.what...)...)
		// Coffer looks how much is left: on a machine that is too busy to let it, it comes late.
		var kept filled
		for i := 0; i < 10 && (i == 0 || !a.contained(kept)); i++ {
			kept = try(fmt.Sprint(a.n, "-in", i), a.options, append([]string{s.bed.Coffer, "run", "--net", "none", "--pids", "500", "--", s.probe}, a.what...)...)
		}
		s.r.judge(a.n, a.name, a.full(free), free.probed().String(), a.contained(kept), a.said(kept))
	}
}

// filled is what became of a disk: what of it was left, bytes and files, when the sandbox was frozen
// and at the end.
type filled struct {
	result
	frozen, left [2]int64
}

// outputFlood: a program that prints faster than anybody reads.
func outputFlood(s *stage) {
	const megabytes = 192
	flood := func(name string, args ...string) (n int64, peak int64) {
		c := s.bed.Program(name, args...)
		out, err := c.StdoutPipe()
		must(s.t, err)
		must(s.t, c.Start())
		r := bufio.NewReader(out)
		r.Peek(1) // it has begun; now nobody reads until all that can be in flight is
		last := int64(-1)
		poll(s.t, "the flood has stopped at the first dam", func() bool {
			now := statusOf(c.Process.Pid)["VmRSS"]
			var rss int64
			fmt.Sscan(now, &rss)
			still := rss == last
			last = rss
			time.Sleep(50 * time.Millisecond)
			return still
		})
		// The most it ever had, asked for while it is still there: what wait tells has our
		// own size in it, from before it was another program.
		n, err = io.CopyN(io.Discard, r, (megabytes-1)<<20)
		must(s.t, err)
		fmt.Sscan(statusOf(c.Process.Pid)["VmHWM"], &peak)
		rest, err := io.Copy(io.Discard, r)
		must(s.t, err)
		must(s.t, c.Wait())
		return n + rest, peak >> 10
	}
	n, _ := flood(s.probe, "flood", fmt.Sprint(megabytes))
	m, peak := flood(s.bed.Coffer, "run", "--", s.probe, "flood", fmt.Sprint(megabytes))
	s.r.judge("102", "print more than anybody reads", n == megabytes<<20, "all arrives", m == n && peak > 0 && peak < megabytes/2, fmt.Sprintf("%d MB used", peak))
}

// deadline: a program that does not end.
func deadline(s *stage) {
	mark := s.mark(4712)
	got := s.coffer(s.bed.Work, "run", "--timeout", "500ms", "--", "/bin/sh", "-c", "trap '' TERM HUP INT; setsid -f /bin/sleep "+mark+"; /bin/sleep "+mark)
	gone := poll(s.t, "the sandbox is gone", func() bool { return len(marked(mark)) == 0 })
	free := s.coffer(s.bed.Work, "run", "--", "/bin/sleep", "0.7")
	s.r.judge("103", "run for longer than allowed", free.code == 0, "no limit", got.code == 137 && gone, fmt.Sprint("exit status ", got.code))
}

// daemons: a process that is left behind on purpose.
func daemons(s *stage) {
	out, in := s.mark(4713), s.mark(4714)
	free := s.outside(s.bed.Work, "daemon", out)
	left := poll(s.t, "the daemon runs", func() bool { return len(marked(out)) > 0 })
	for _, pid := range marked(out) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	kept := s.inside(s.bed.Work, "--", "daemon", in)
	gone := poll(s.t, "the daemon is gone", func() bool { return len(marked(in)) == 0 })
	s.r.judge("54", "leave a daemon behind", free.Wall == "" && left, "it stays", kept.Wall == "" && gone, "it is gone")
}
