package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/spf13/pflag"
)

// A limitFlag is checked when it is read: a limit of 0 is a mistake, and not the same as none.
type limitFlag struct {
	kind string // as pflag calls what it takes
	set  func(string) error
}

func (l limitFlag) Set(s string) error { return l.set(s) }
func (l limitFlag) String() string     { return "" }
func (l limitFlag) Type() string       { return l.kind }

// addLimitsTo adds the flags about what the sandbox may use.
func (s *settings) addLimitsTo(f *pflag.FlagSet) {
	add := func(name, kind, usage string, set func(string) error) { f.Var(limitFlag{kind, set}, name, usage) }
	add("memory", "string", "memory `LIMIT`, such as 512m or 2g", func(text string) error {
		s.memory = text
		_, err := limits.ParseMemory(text)
		return err
	})
	add("pids", "int", "`LIMIT` on processes and threads", whole(&s.pids, limits.CheckPids))
	add("cpus", "float64", "`LIMIT` on processors, such as 1.5", func(text string) (err error) {
		if s.cpus, err = strconv.ParseFloat(text, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return err
		}
		return limits.CheckCPUs(s.cpus)
	})
	add("open-files", "int", "`LIMIT` on open files of one process", whole(&s.openFiles, limits.CheckOpenFiles))
	add("keep-free", "string", "tell you, and freeze a sandbox with a cgroup, when less than this `SIZE` is free on a disk that it writes to: 1g if you do not say, 0 for never", func(text string) error {
		s.keepFree = text
		_, err := limits.ParseKeepFree(text)
		return err
	})
	add("timeout", "duration", "end the sandbox after this `TIME`, such as 10m", func(text string) (err error) {
		if s.timeout, err = time.ParseDuration(text); err == nil && s.timeout <= 0 {
			err = &limits.WrongError{What: text + " leaves no time to run", Want: "want more than 0; for no limit, leave it out"}
		}
		return err
	})
}

// addIdleTo adds --idle. Its default is said as people write it, and not as Go does.
func addIdleTo(f *pflag.FlagSet, to *time.Duration, usage string) {
	f.DurationVar(to, "idle", idleDefault, usage)
	f.Lookup("idle").DefValue = "10m"
}

func whole(to *int, check func(int) error) func(string) error {
	return func(text string) (err error) {
		if *to, err = strconv.Atoi(text); err != nil {
			return err
		}
		return check(*to)
	}
}
