package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// workload is one command, timed natively and in a running sandbox by the same
// stopwatch program, in two workspaces with the same content.
type workload struct {
	Name    string `json:"name"`
	Native  series `json:"native"`
	Sandbox series `json:"sandbox"`
}

// job is how a workload is run.
type job struct {
	name   string
	shown  string
	warmup int
	rounds int
	args   []string // of the stopwatch
}

// coldShare: a go build that compiles the standard library takes seconds, so
// the cold rounds are one in this many of the others.
const coldShare = 5

func measureWork(ctx context.Context, l *lab, res *result) error {
	native, inside := filepath.Join(l.dir, "native"), filepath.Join(l.dir, "inside")
	for _, dir := range []string{native, inside} {
		if err := l.workspace(ctx, dir); err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
	}
	jobs, err := l.jobs()
	if err != nil {
		return err
	}
	// Without coffer the native column is still measured, and the sandbox's
	// says why it is empty.
	var missing string
	if _, err := l.create(ctx, inside, "bench-work"); err != nil {
		missing = l.neutral(err.Error())
	}
	for _, j := range jobs {
		enter := []string{l.coffer, "exec", "-m", "bench-work", "--"}
		pair, err := race(ctx, l, "native", j.warmup, j.rounds, []contender{
			{name: "native", command: j.shown, sample: l.stopwatched(native, nil, j.args)},
			{name: "sandbox", command: j.shown, missing: missing, sample: l.stopwatched(inside, enter, j.args)},
		})
		if err != nil {
			return err
		}
		res.Work = append(res.Work, workload{Name: j.name, Native: pair[0], Sandbox: pair[1]})
		fmt.Printf("\n%s\n", j.name)
		printSeries(pair, "native")
	}
	return nil
}

// jobs names the programs by absolute path, because the PATH inside a sandbox
// is the sandbox's own.
func (l *lab) jobs() ([]job, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	gobin, err := exec.LookPath("go")
	if err != nil {
		return nil, err
	}
	if gobin, err = filepath.EvalSymlinks(gobin); err != nil {
		return nil, err
	}
	// Everything go writes stays in the workspace: elsewhere the sandbox might
	// have a memory file system, and that would be another comparison.
	build := []string{
		"-C", "module", "-scratch", "module/.scratch",
		"-env", "GOCACHE=$SCRATCH/cache", "-env", "GOTMPDIR=$SCRATCH", "-env", "GOPATH=$SCRATCH/path",
		"-env", "HOME=$SCRATCH", "-env", "XDG_CONFIG_HOME=$SCRATCH", "-env", "GOENV=off", "-env", "GOPROXY=off",
		"-env", "GOTOOLCHAIN=local", "-env", "GOFLAGS=-mod=mod", "-env", "GOWORK=off", "-env", "CGO_ENABLED=0",
	}
	command := []string{"--", gobin, "build", "-buildvcs=false", "-o", "app.out", "./app"}
	warm := append(append([]string{"-n", "3"}, build...), command...)
	cold := append(append([]string{"-n", "1", "-cold"}, build...), command...)
	return []job{
		{"git status, 18,000 files", "git status --porcelain", l.warmup, l.rounds, []string{"-n", "3", "--", git, "status", "--porcelain"}},
		{"go build, warm cache", "go build ./app", l.warmup, l.rounds, warm},
		{"go build, empty cache", "go build ./app", 1, max(1, l.rounds/coldShare), cold},
	}, nil
}

// stopwatched is a sample that runs the stopwatch in a workspace, natively or
// through the command that enters the sandbox, and reads its times.
func (l *lab) stopwatched(dir string, enter, args []string) func(context.Context) ([]time.Duration, error) {
	argv := append(append(append([]string{}, enter...), "./stopwatch"), args...)
	if enter == nil {
		// Started by this process, it is found from here and not from dir.
		argv[0] = filepath.Join(dir, "stopwatch")
	}
	return func(ctx context.Context) ([]time.Duration, error) {
		out, err := l.output(ctx, dir, argv...)
		if err != nil {
			return nil, err
		}
		var ds []time.Duration
		for _, f := range strings.Fields(string(out)) {
			ns, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("the stopwatch printed %q", f)
			}
			ds = append(ds, time.Duration(ns))
		}
		if len(ds) == 0 {
			return nil, fmt.Errorf("the stopwatch printed no times")
		}
		return ds, nil
	}
}

// workspace makes a git repository with many small files, a small Go module
// and the stopwatch. All of it is committed, because a sandbox may see the
// repository through a worktree of its own, which holds committed files only.
func (l *lab) workspace(ctx context.Context, dir string) error {
	if err := manyFiles(dir); err != nil {
		return err
	}
	if err := goModule(filepath.Join(dir, "module")); err != nil {
		return err
	}
	data, err := os.ReadFile(l.stopwatch)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "stopwatch"), data, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(".scratch/\napp.out\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q"},
		// A background gc would start in the middle of the measurement.
		{"config", "gc.auto", "0"},
		{"config", "maintenance.auto", "false"},
		{"add", "-A"},
		{"-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "workspace"},
		{"gc", "-q"},
	} {
		if _, err := l.output(ctx, dir, append([]string{"git"}, args...)...); err != nil {
			return fmt.Errorf("git %s: %w", args[0], err)
		}
	}
	return nil
}

// manyFiles writes 18,000 files in 180 directories. They get an old date: git
// reads every file again that is as young as its index.
func manyFiles(dir string) error {
	old := time.Now().Add(-24 * time.Hour)
	for d := range 180 {
		sub := filepath.Join(dir, fmt.Sprintf("area%d", d/12), fmt.Sprintf("part%d", d))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		for f := range 100 {
			name := filepath.Join(sub, fmt.Sprintf("file%d.txt", f))
			text := fmt.Sprintf("part %d, file %d\n%s", d, f, strings.Repeat("some text\n", f%40))
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				return err
			}
			if err := os.Chtimes(name, old, old); err != nil {
				return err
			}
		}
	}
	return nil
}

// goModule writes a program of nine packages without dependencies. It leaves
// out fmt, so that an empty cache means seconds of compiling and not minutes.
func goModule(dir string) error {
	files := map[string]string{"go.mod": "module example.test/app\n\ngo 1.21\n"}
	var imports, calls strings.Builder
	for i := range 8 {
		name := fmt.Sprintf("part%d", i)
		fmt.Fprintf(&imports, "\t\"example.test/app/%s\"\n", name)
		fmt.Fprintf(&calls, "\tprintln(%s.Join(\"a\", \"b\"))\n", name)
		var body strings.Builder
		fmt.Fprintf(&body, "package %s\n\nimport \"strings\"\n\n", name)
		body.WriteString("func Join(words ...string) string {\n\treturn strings.Join(words, \" \")\n}\n")
		for f := range 30 {
			fmt.Fprintf(&body, "\nfunc Step%d(n int) int {\n\tfor i := 0; i < n; i++ {\n\t\tn -= i %% %d\n\t}\n\treturn n\n}\n", f, f+2)
		}
		files[filepath.Join(name, name+".go")] = body.String()
	}
	files["app/main.go"] = "package main\n\nimport (\n" + imports.String() + ")\n\nfunc main() {\n" + calls.String() + "}\n"
	return writeAll(dir, files)
}
