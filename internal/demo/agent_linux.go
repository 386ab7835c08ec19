package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The roles that the binary plays.
const (
	roleAgent     = "agent"     // TARGET: does the honest work, then every misdeed
	roleBystander = "bystander" // a process of the user's, to be harmed
	roleMount     = "mount"     // DIR: mounts over a directory
)

// Act plays a role.
func Act(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == roleAgent:
		return actAgent(ctx, args[1])
	case len(args) == 1 && args[0] == roleBystander:
		return actBystander()
	case len(args) == 2 && args[0] == roleMount:
		return unix.Mount("coffer-demo", args[1], "tmpfs", 0, "")
	}
	return fmt.Errorf("there is no such role in the demo")
}

// actAgent works, sins, and tells all of it.
func actAgent(ctx context.Context, where string) error {
	var t target
	if err := json.Unmarshal([]byte(where), &t); err != nil {
		return err
	}
	tell := json.NewEncoder(os.Stdout)
	if !t.Bare {
		for _, s := range honestWork(t.Work) {
			if err := tell.Encode(line{Step: &s}); err != nil {
				return err
			}
		}
	}
	for _, m := range misdeeds {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := tell.Encode(line{Report: m.attempt(t)}); err != nil {
			return err
		}
	}
	return nil
}

// actBystander answers every line, for as long as the demo holds its other end.
func actBystander() error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if _, err := fmt.Println(in.Text()); err != nil {
			return err
		}
	}
	return in.Err()
}
