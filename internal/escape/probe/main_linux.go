// Command probe makes the attempts of the escape corpus: see package escape.
//
//	probe ATTEMPT [ARG…]   makes one and prints its result as one line of JSON
//	probe batch            makes those on standard input
//	probe each ATTEMPT -- ATTEMPT -- …
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A result is what became of an attempt. An empty Wall means that it succeeded.
type result struct {
	Wall string `json:"wall"` // the errno's name, or a fact
	Note string `json:"note,omitempty"`
}

// fact is an obstacle that is not an errno.
type fact string

func (f fact) Error() string { return string(f) }

// note is for the reader of the table.
var note string

// attempts are all there are, by name. Each returns nil if it got through.
var attempts = map[string]func([]string) error{}

func init() {
	for _, group := range []map[string]func([]string) error{
		files, secrets, modes, processes, kernel, sockets, agent, terminals, resources, network, web, names, netlink,
	} {
		maps.Copy(attempts, group)
	}
}

// patience is for one attempt; none takes long unless it hangs.
const patience = time.Minute

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	name, args := os.Args[1], os.Args[2:]
	switch name {
	case "batch":
		batch()
		return
	case "each":
		each(args)
		return
	}
	if help, ok := roles[name]; ok {
		if err := help(args); err != nil {
			fmt.Fprintln(os.Stderr, "probe:", name, err)
			os.Exit(1)
		}
		return
	}
	json.NewEncoder(os.Stdout).Encode(try(name, args))
}

func try(name string, args []string) (r result) {
	f, ok := attempts[name]
	if !ok {
		return result{Wall: "NO-SUCH-PROBE " + name}
	}
	defer func() {
		if p := recover(); p != nil {
			r = result{Wall: "PANIC", Note: fmt.Sprint(p)}
		}
	}()
	err := f(args)
	return result{Wall: wall(err), Note: note}
}

func wall(err error) string {
	var no syscall.Errno
	var f fact
	switch {
	case err == nil:
		return ""
	case errors.As(err, &no):
		return unix.ErrnoName(no)
	case errors.As(err, &f):
		return string(f)
	}
	return "ERROR " + err.Error()
}

// batch makes many attempts. One that kills its process tells by that.
func batch() {
	var all [][]string
	if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for _, argv := range all {
		if harmless[argv[0]] {
			note = ""
			out.Encode(try(argv[0], argv[1:]))
			continue
		}
		out.Encode(apart(argv))
	}
}

// harmless are attempts that leave the process that makes them as it was, so that a
// batch can make them itself, in a hundredth of the time.
var harmless = map[string]bool{}

func init() {
	for _, group := range []map[string]func([]string) error{files, secrets, modes, sockets, network, web, names, netlink} {
		for name := range group {
			harmless[name] = true
		}
	}
	for _, name := range []string{"call", "socket", "kill", "renice", "mem", "mem-all", "vm-read", "vm-write", "pidfd", "pidfd-get", "fd-of"} {
		harmless[name] = true
	}
}

// each makes the attempts that its arguments name, with "--" after every one.
func each(args []string) {
	out := json.NewEncoder(os.Stdout)
	for len(args) > 0 {
		n := slices.Index(args, "--")
		out.Encode(apart(args[:n]))
		args = args[n+1:]
	}
}

func apart(argv []string) (r result) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c := exec.CommandContext(ctx, "/proc/self/exe", argv...)
	c.Args[0] = "probe"
	c.WaitDelay = time.Second
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if json.Unmarshal(out, &r) == nil {
		return r
	}
	if ctx.Err() != nil {
		return result{Wall: "TIMEOUT"}
	}
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return result{Wall: unix.SignalName(s.Signal())}
	}
	return result{Wall: "DIED", Note: fmt.Sprint(err, first(said.String()))}
}

func first(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
