//go:build !linux

package gitbridge

import "os/exec"

func runMortal(c *exec.Cmd) error { return c.Run() }
