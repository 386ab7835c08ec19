// Stopwatch runs one command several times and prints how long each run took,
// in nanoseconds, one per line. It is built static and copied into the
// workspace, so that the same clock runs natively and inside a sandbox, and
// the cost of entering the sandbox is not in the numbers. With -serve it stays, and runs
// the command again at every word, so that nothing of the entering goes on beside it.
//
// It imports little and sets the whole environment itself, because a sandbox
// does not pass the host's environment on and the two sides must be alike.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	n := flag.Int("n", 1, "how many times to run the command")
	dir := flag.String("C", ".", "run the command in this directory")
	scratch := flag.String("scratch", "", "make this directory, and expand $SCRATCH in -env to its absolute path")
	cold := flag.Bool("cold", false, "empty the scratch directory before every run")
	serve := flag.Bool("serve", false, "run it so often for every line that is read, and end with an empty line")
	var env []string
	flag.Func("env", "set `NAME=value` for the command; may be repeated", func(s string) error {
		env = append(env, s)
		return nil
	})
	flag.Parse()
	lines := bufio.NewScanner(os.Stdin)
	for !*serve || lines.Scan() {
		if err := run(*n, *dir, *scratch, *cold, env, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "stopwatch:", err)
			os.Exit(1)
		}
		if !*serve {
			return
		}
		fmt.Println()
	}
}

func run(n int, dir, scratch string, cold bool, env, argv []string) error {
	if len(argv) == 0 {
		return fmt.Errorf("no command given")
	}
	if scratch != "" {
		abs, err := filepath.Abs(scratch)
		if err != nil {
			return err
		}
		scratch = abs
		if err := os.MkdirAll(scratch, 0o755); err != nil {
			return err
		}
	}
	for i, kv := range env {
		env[i] = strings.ReplaceAll(kv, "$SCRATCH", scratch)
	}
	for range n {
		if cold && scratch != "" {
			if err := os.RemoveAll(scratch); err != nil {
				return err
			}
			if err := os.MkdirAll(scratch, 0o755); err != nil {
				return err
			}
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
		cmd.Stderr = os.Stderr
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", argv[0], err)
		}
		fmt.Println(time.Since(start).Nanoseconds())
	}
	return nil
}
