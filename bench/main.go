// Bench measures what coffer costs, beside its peers and beside no sandbox at
// all, on the machine it runs on.
//
// Numbers taken one tool after the other mostly tell how busy the machine was
// at the time. So everything that is compared is measured in one interleaved
// run: a round runs every contender once, in an order shuffled anew for each
// round, and load from outside hits all of them alike. The first rounds warm
// caches and are thrown away. Of the rest bench reports the minimum (what the
// work costs when nothing disturbs it), the median and the 90th percentile
// (what a user feels), and ratios to a base of the same run. Ratios travel
// between machines; milliseconds do not.
//
// Eight questions, one file each (the network has a few more):
//
//	cold.go   how long until a fresh sandbox has run `true`? (against the peers)
//	cold.go   how long does a command in a running sandbox take?
//	work.go   how much slower are git and go inside, start-up not counted?
//	git.go    what does a worktree of its own cost, and how soon are commits outside?
//	idle.go   what does a sandbox cost that does nothing?
//	many.go   is the hundredth sandbox as fast to start as the first?
//	network.go  how fast is a sandbox's network, and what does it cost? (against
//	          no sandbox and the peers' networks)
//	caches.go  how much sooner are dependencies installed with the user's package caches?
//
// A contender that is not installed, or whose first trial fails, is listed as
// not measured, with the reason. The bars at the end are the project's own
// goals; bench exits 0 whether they are met or missed, because a time is a
// finding about a machine and not a property of the code that a test could
// assert.
//
// From the root of the repository:
//
//	make build && ./bench/setup && go run ./bench
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// options are the command line.
type options struct {
	coffer string // the binary under test
	peers  string // where bench/setup put the npm peers
	out    string // where results.json and the plots go
	only   string // comma-separated sections; empty means all
	merge  bool   // save those sections beside the others of the last run
	rounds int
	warmup int
	many   int // how many sandboxes the last section makes
	idle   int // seconds of idling
}

// sections in the order they run. The idle section goes before the hundred
// sandboxes so that the machine is quiet for it.
var sections = []struct {
	name  string
	title string
	run   func(context.Context, *lab, *result) error
}{
	{"cold", "cold start of true", measureCold},
	{"exec", "true in a running sandbox", measureExec},
	{"work", "work in the workspace, timed inside", measureWork},
	{"git", "git worktrees", measureGit},
	{"idle", "an idle sandbox", measureIdle},
	{"many", "many sandboxes", measureMany},
	{"network", "the network of a sandbox", measureNetwork},
	{"checkpoint", "checkpoints of a worktree", measureCheckpoints},
	{"caches", "installing with and without the user's package caches", measureCaches},
}

func main() {
	if played, err := playRole(os.Args); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.coffer, "coffer", "bin/coffer", "the coffer `binary` to measure")
	flag.StringVar(&o.peers, "peers", defaultPeers(), "`directory` with the npm peers that bench/setup installed")
	flag.StringVar(&o.out, "out", "bench", "`directory` for results.json and the plots")
	flag.StringVar(&o.only, "only", "", "run only these `sections` (cold,exec,work,git,checkpoint,idle,many,network,caches) and write no files")
	flag.BoolVar(&o.merge, "merge", false, "with -only, write these sections into the last results")
	flag.IntVar(&o.rounds, "rounds", 50, "measured rounds")
	flag.IntVar(&o.warmup, "warmup", 3, "rounds to throw away first")
	flag.IntVar(&o.many, "many", 100, "how many sandboxes to run side by side")
	flag.IntVar(&o.idle, "idle", 10, "`seconds` to watch an idle sandbox")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, o options) (err error) {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()

	res := newResult(l)
	printMachine(res)
	for _, s := range sections {
		if !chosen[s.name] {
			continue
		}
		fmt.Printf("\n== %s ==\n", s.title)
		err := s.run(ctx, l, res)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			// One broken section must not cost the others.
			reason := l.neutral(err.Error())
			res.NotMeasured[s.name] = reason
			fmt.Println("not measured:", reason)
		}
		// The next section wants the machine to itself.
		if err := l.remove(); err != nil {
			fmt.Println(l.neutral(err.Error()))
		}
	}
	res.LoadAfter = load()
	res.judge()
	printBars(res)
	if o.only == "" {
		return save(o.out, res)
	}
	if !o.merge {
		return nil
	}
	last, err := lastResult(o.out, res)
	if err != nil {
		return err
	}
	return save(o.out, last)
}

// choose turns -only into the set of sections to run.
func choose(only string) (map[string]bool, error) {
	chosen := map[string]bool{}
	for _, s := range sections {
		chosen[s.name] = only == ""
	}
	if only == "" {
		return chosen, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		if _, ok := chosen[name]; !ok {
			return nil, fmt.Errorf("no section named %q", name)
		}
		chosen[name] = true
	}
	return chosen, nil
}

// defaultPeers is the directory that bench/setup installs into.
func defaultPeers() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "coffer-bench")
}
