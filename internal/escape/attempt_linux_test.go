package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// An attempt is a row of the table. Its texts have placeholders: see expand.
type attempt struct {
	n, name string
	do      string // the probe's attempt and its arguments
	wall    string // what it must meet inside, one of these; "ok" if it may succeed on something of the sandbox's own
	hurt    string // victims: unchanged by the attempt, changed by the control
	as      string // who makes it inside: the user, "root" of the sandbox, or "both"

	control string // what to do outside, if not the same
	by      string // who does: the user, "root", root of new namespaces ("ns"), or "nobody"
	free    string // what the control meets, one of these, if not nothing: for calls with bad arguments
	why     string // why there is no control
}

// A trial is an attempt made by somebody.
type trial struct {
	attempt
	id   string
	root bool
}

func trials(table []attempt) (all []trial) {
	for _, a := range table {
		id := strings.ReplaceAll(a.n, ".", "-")
		if a.as == "both" || a.as == "" {
			all = append(all, trial{a, id, false})
		}
		if a.as == "both" || a.as == "root" {
			all = append(all, trial{a, id + "r", true})
		}
	}
	return all
}

// outcome is what the probe says, and which victims changed.
type outcome struct {
	Wall    string `json:"wall"`
	Note    string `json:"note"`
	changed []string
	hurt    int // victims there were
}

func (o outcome) String() string {
	s := o.Wall
	if s == "" {
		s = "ok"
	}
	if len(o.changed) > 0 {
		s += "+changed"
	}
	return s
}

// inherited descriptors: a file to write to, and a directory.
const inheritedFile, inheritedDir = 77, 78

// environment has a canary and all that leads to the user's other programs.
func environment(w *world) []string {
	return append(w.bed.Env(), "SECRET_TOKEN=canary-4711", "LD_PRELOAD=/nowhere.so", "NODE_OPTIONS=--require=/nowhere",
		"BASH_ENV=/nowhere", "PYTHONSTARTUP=/nowhere", "GIT_SSH_COMMAND=false", "SSH_AUTH_SOCK="+w.hub.address("homesock"),
		"DBUS_SESSION_BUS_ADDRESS=unix:path="+w.hub.address("sock"), "XDG_RUNTIME_DIR="+w.outside, "DISPLAY=:77",
		"WAYLAND_DISPLAY=wayland-77", "DOCKER_HOST=unix://"+w.hub.address("sock"), "GPG_AGENT_INFO=x", "PIPEWIRE_REMOTE=x", "HTTP_PROXY=http://127.0.0.1:9")
}

// perform has a command make attempts, and looks at the victims before and after.
func (w *world) perform(c *exec.Cmd, list []trial, do func(trial) string) ([]outcome, error) {
	w.t.Helper()
	var argvs [][]string
	var hurt [][]string
	var before []string
	for _, a := range list {
		argvs = append(argvs, strings.Fields(w.expand(a.id, do(a))))
		hurt = append(hurt, strings.Fields(w.expand(a.id, a.hurt)))
	}
	file, err := os.OpenFile(w.file(w.outside+"/inherited"), os.O_RDWR, 0)
	must(w.t, err)
	defer file.Close()
	dir, err := os.Open(w.outside)
	must(w.t, err)
	defer dir.Close()
	c.ExtraFiles = make([]*os.File, inheritedDir-2)
	c.ExtraFiles[inheritedFile-3], c.ExtraFiles[inheritedDir-3] = file, dir
	for _, victims := range hurt {
		for _, v := range victims {
			before = append(before, w.state(v))
		}
	}
	orders, err := json.Marshal(argvs)
	must(w.t, err)
	var said, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(orders), &said, &stderr
	runErr := c.Run()
	w.hub.flush()
	out := make([]outcome, len(list))
	lines := json.NewDecoder(&said)
	for i := range out {
		if err := lines.Decode(&out[i]); err != nil {
			return nil, fmt.Errorf("after %d of %d results: %w, %w\n%s", i, len(out), err, runErr, stderr.String())
		}
		for _, v := range hurt[i] {
			if w.state(v) != before[0] {
				out[i].changed = append(out[i].changed, v)
			}
			before = before[1:]
			out[i].hurt++
		}
	}
	return out, nil
}

// controls makes all attempts outside, each by whoever can.
func (w *world) controls(list []trial) map[string]outcome {
	w.t.Helper()
	probe := program(w.t)
	by := map[string][]trial{}
	for _, a := range list {
		by[a.by] = append(by[a.by], a)
	}
	all := map[string]outcome{}
	for _, who := range []string{"", "ns", "root"} {
		group := by[who]
		var c *exec.Cmd
		switch {
		case len(group) == 0, who == "root" && os.Getuid() != 0:
			continue
		case who == "root":
			c = exec.Command(probe, "batch")
		case who == "ns":
			c = w.bed.Program(probe, "ns", "batch")
		default:
			c = w.bed.Program(probe, "batch")
		}
		c.Dir, c.Env = w.work, environment(w)
		got, err := w.perform(c, group, func(a trial) string {
			if a.control != "" {
				return a.control
			}
			return a.do
		})
		must(w.t, err)
		for i, a := range group {
			all[a.id] = got[i]
		}
	}
	return all
}

// inside makes attempts in a sandbox, as its user or as its root.
func (w *world) inside(list []trial, root bool, flags ...string) map[string]outcome {
	w.t.Helper()
	args := append([]string{"run"}, flags...)
	if root {
		args = append(args, "--root")
	}
	var mine []trial
	for _, a := range list {
		if a.root == root {
			mine = append(mine, a)
		}
	}
	c := w.bed.Command(append(args, "--", w.home+"/.local/bin/probe", "batch")...)
	c.Env = environment(w)
	got, err := w.perform(c, mine, func(a trial) string { return a.do })
	must(w.t, err)
	all := map[string]outcome{}
	for i, a := range mine {
		all[a.id] = got[i]
	}
	return all
}

// held says that an attempt met the wall it had to, and left its victims alone.
func (a attempt) held(o outcome) bool {
	walls := strings.Fields(strings.ReplaceAll(a.wall, "ok", ""))
	if strings.Contains(a.wall, "ok") {
		walls = append(walls, "")
	}
	return slices.Contains(walls, o.Wall) && len(o.changed) == 0
}

// works says that a control got through.
func (a attempt) works(o outcome) bool {
	free := strings.Fields(a.free)
	if a.free == "" {
		free = []string{""}
	}
	return slices.Contains(free, o.Wall) && len(o.changed) == o.hurt
}

// settle judges attempts by what happened inside and outside.
func (r *report) settle(list []trial, outside, inside map[string]outcome) {
	for _, a := range list {
		in, out := inside[a.id], outside[a.id]
		row := row{n: a.id, name: a.name, control: out.String(), inside: in.String(), verdict: contained}
		_, made := outside[a.id]
		switch {
		case !a.held(in):
			row.verdict, row.why = escaped, strings.TrimSpace(in.Note+" "+strings.Join(in.changed, " "))
		case !made:
			row.verdict, row.control, row.why = uncontrolled, "-", a.why
			if row.why == "" {
				row.why = "only root could"
			}
		case !a.works(out):
			row.verdict, row.why = broken, out.Note
			if a.why != "" { // a control that depends on the machine
				row.verdict, row.why = uncontrolled, a.why
			}
		}
		r.add(row)
	}
}
