//go:build !linux

package git

import "os/exec"

// start starts git.
func start(c *exec.Cmd) error { return c.Start() }

func runMortal(c *exec.Cmd) error { return c.Run() }
