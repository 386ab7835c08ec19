package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Daemon is a program that runs in a sandbox for as long as that does.
type Daemon struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
	Dir     string   `json:"dir,omitempty"` // relative to the workspace, or absolute
	Env     []string `json:"env,omitempty"` // as NAME=template
	Restart string   `json:"restart"`

	// Signal asks it to end, SIGTERM if it is empty; after Grace it is killed.
	Signal string        `json:"signal,omitempty"`
	Grace  time.Duration `json:"grace_ns,omitempty"`

	// It is ready when something listens on the port, or the command succeeds in a
	// shell; with neither, when it has been started.
	ReadyPort    uint16        `json:"ready_port,omitempty"`
	ReadyCommand string        `json:"ready_command,omitempty"`
	ReadyTimeout time.Duration `json:"ready_timeout_ns,omitempty"`
}

// When a daemon that ended is started again.
const (
	RestartNever     = "never"
	RestartOnFailure = "on-failure"
	RestartAlways    = "always"
)

// MaxDaemons bounds how many a sandbox has.
const MaxDaemons = 32

// signals are those by which a daemon may be asked to end.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM, "TERM": syscall.SIGTERM,
}

// ParseSignal reads the name of a signal, with or without SIG, or its number.
func ParseSignal(s string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return syscall.Signal(n), n > 0 && n < 32
	}
	sig, ok := signals[strings.TrimPrefix(strings.ToUpper(s), "SIG")]
	return sig, ok
}

// StopSignal is the one that asks it to end.
func (d *Daemon) StopSignal() syscall.Signal {
	if sig, ok := ParseSignal(d.Signal); ok {
		return sig
	}
	return syscall.SIGTERM
}

func (r *Record) checkDaemons() error {
	all := r.Daemons
	if len(all) > MaxDaemons {
		return fmt.Errorf("there are %d daemons, more than the %d there can be", len(all), MaxDaemons)
	}
	names := map[string]bool{}
	for _, d := range all {
		// The name is also that of a file.
		if d.Name == "" || len(d.Name) > 60 || strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || names[d.Name] {
			return fmt.Errorf("%q cannot be the name of a daemon, or of two", d.Name)
		}
		names[d.Name] = true
		if len(d.Command) == 0 || d.Command[0] == "" {
			return fmt.Errorf("the daemon %s has no command", d.Name)
		}
		if !slices.Contains([]string{RestartNever, RestartOnFailure, RestartAlways}, d.Restart) {
			return fmt.Errorf("the daemon %s is started again %q, which is none of never, on-failure, always", d.Name, d.Restart)
		}
		if d.Grace < 0 || d.ReadyTimeout < 0 {
			return errors.New("a time cannot be negative")
		}
	}
	return nil
}
