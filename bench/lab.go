package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The two little programs travel in the binary, so that a compiled bench can
// run as another user who cannot read the source tree.
var (
	//go:embed noop/main.go
	noopSource []byte
	//go:embed stopwatch/main.go
	stopwatchSource []byte
)

// trialLimit ends a run that hangs; no contender here needs a second, except a
// cold go build.
const trialLimit = 2 * time.Minute

var errNoCoffer = errors.New("no coffer binary; run make build")

// A lab is the place where the measurements happen: one scratch directory that
// holds a home, coffer's state, workspaces and the little programs, and that
// is gone afterwards. The user's own sandboxes, images and settings are
// neither used nor touched.
type lab struct {
	options
	dir       string
	home      string
	runtime   string // sockets and pid files
	noop      string
	stopwatch string
	sandboxes []string // made and not yet removed
}

func newLab(ctx context.Context, o options) (*lab, error) {
	// The cache directory rather than /tmp, which is a memory file system on
	// many machines and a private one in many sandboxes.
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(cache, "coffer-bench"), 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Join(cache, "coffer-bench"), "run-")
	if err != nil {
		return nil, err
	}
	l := &lab{options: o, dir: dir, home: filepath.Join(dir, "home")}
	if err := l.furnish(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// furnish makes the directories and programs that every section needs.
func (l *lab) furnish(ctx context.Context) (err error) {
	if l.coffer, err = filepath.Abs(l.coffer); err != nil {
		return err
	}
	// Socket addresses end after 108 bytes and podman's runroot after 50, so
	// this one directory has a short name.
	if l.runtime, err = os.MkdirTemp("", "cbench"); err != nil {
		return err
	}
	for _, d := range []string{"home", "small", "bin"} {
		if err := os.Mkdir(filepath.Join(l.dir, d), 0o700); err != nil {
			return err
		}
	}
	if l.noop, err = l.build(ctx, "noop", noopSource); err != nil {
		return err
	}
	l.stopwatch, err = l.build(ctx, "stopwatch", stopwatchSource)
	return err
}

// build compiles one of the embedded programs, static.
func (l *lab) build(ctx context.Context, name string, source []byte) (string, error) {
	src := filepath.Join(l.dir, name+".go")
	bin := filepath.Join(l.dir, "bin", name)
	if err := os.WriteFile(src, source, 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, src)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return bin, nil
}

// env is the environment of every child: the host's PATH, and everything a
// program might write to below the scratch directory.
func (l *lab) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + l.home,
		"LANG=C",
		"TMPDIR=" + l.runtime, // srt leaves a socket there on every run
		"XDG_CACHE_HOME=" + filepath.Join(l.home, ".cache"),
		"XDG_CONFIG_HOME=" + filepath.Join(l.home, ".config"),
		"XDG_DATA_HOME=" + filepath.Join(l.home, ".local/share"),
		"XDG_STATE_HOME=" + filepath.Join(l.home, ".local/state"),
		"XDG_RUNTIME_DIR=" + l.runtime,
	}
}

// command prepares argv to run in dir with nothing on its three streams. They
// are files and never pipes: a supervisor that stays behind would keep a pipe
// open, and waiting for its end would hang.
func (l *lab) command(ctx context.Context, dir string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = l.env()
	return cmd
}

// timed runs argv and returns how long it took from fork to wait.
func (l *lab) timed(ctx context.Context, dir string, argv ...string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	cmd := l.command(ctx, dir, argv...)
	errs, err := os.OpenFile(filepath.Join(l.dir, "stderr"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer errs.Close()
	cmd.Stderr = errs
	start := time.Now()
	err = cmd.Run()
	took := time.Since(start)
	if err != nil {
		return took, explain(ctx, err, errs)
	}
	return took, nil
}

// output runs argv and returns what it wrote to stdout.
func (l *lab) output(ctx context.Context, dir string, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	cmd := l.command(ctx, dir, argv...)
	var files [2]*os.File
	for i, name := range []string{"stdout", "stderr"} {
		f, err := os.OpenFile(filepath.Join(l.dir, name), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		files[i] = f
	}
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	if err := cmd.Run(); err != nil {
		return nil, explain(ctx, err, files[1])
	}
	return os.ReadFile(files[0].Name())
}

// explain adds the last line of stderr, where most programs say what was wrong.
func explain(ctx context.Context, err error, stderr *os.File) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no end after %s", trialLimit)
	}
	text, readErr := os.ReadFile(stderr.Name())
	if readErr != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	last := strings.ToValidUTF8(string(lines[len(lines)-1]), "?")
	if last == "" {
		return err
	}
	if len(last) > 200 {
		last = last[:200] + "…"
	}
	return fmt.Errorf("%w: %s", err, last)
}

// neutral takes this machine's own paths out of a text that will be printed or
// saved.
func (l *lab) neutral(s string) string {
	return strings.NewReplacer(l.dir, "$LAB", l.runtime, "$RUN", l.coffer, "coffer", l.peers, "$PEERS").Replace(s)
}

// create makes a persistent sandbox over dir and leaves it running.
func (l *lab) create(ctx context.Context, dir, name string) (time.Duration, error) {
	if _, err := os.Stat(l.coffer); err != nil {
		return 0, errNoCoffer
	}
	took, err := l.timed(ctx, dir, l.coffer, "exec", "--create", "--workspace", "direct", "--name", name, "--", "true")
	if err != nil {
		// Half a sandbox may be left; if there is none, this fails rightly.
		l.timed(context.Background(), dir, l.coffer, "rm", "--force", name)
		return 0, fmt.Errorf("create sandbox %s: %w", name, err)
	}
	l.sandboxes = append(l.sandboxes, name)
	return took, nil
}

// remove ends and deletes every sandbox that is left. It does not take the
// caller's context: an interrupted bench must clean up too.
func (l *lab) remove() error {
	var errs []error
	for _, name := range l.sandboxes {
		if _, err := l.timed(context.Background(), l.dir, l.coffer, "rm", "--force", name); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox %s: %w", name, err))
		}
	}
	l.sandboxes = nil
	return errors.Join(errs...)
}

// pids asks coffer for the supervisors of the running sandboxes, by name.
func (l *lab) pids(ctx context.Context) (map[string]int, error) {
	out, err := l.output(ctx, l.dir, l.coffer, "ls", "--json")
	if err != nil {
		return nil, fmt.Errorf("coffer ls: %w", err)
	}
	var list []struct {
		Name string `json:"name"`
		PID  int    `json:"pid"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("coffer ls --json: %w", err)
	}
	pids := map[string]int{}
	for _, s := range list {
		if s.PID > 0 {
			pids[s.Name] = s.PID
		}
	}
	return pids, nil
}

func (l *lab) close() error {
	err := l.remove()
	l.endPodmanPause()
	// Overlay work directories have no permissions at all, which stops even
	// their owner from listing them.
	for _, dir := range []string{l.dir, l.runtime} {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				if info, err := d.Info(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
					os.Chmod(path, 0o700)
				}
			}
			return nil
		})
		if dir != "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

// endPodmanPause ends the process that rootless podman leaves behind to keep
// its user namespace; it is ours, because XDG_RUNTIME_DIR is.
func (l *lab) endPodmanPause() {
	text, err := os.ReadFile(filepath.Join(l.runtime, "libpod/tmp/pause.pid"))
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
		syscall.Kill(pid, syscall.SIGTERM)
	}
}
