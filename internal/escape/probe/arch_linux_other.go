//go:build linux && !amd64

package main

import "golang.org/x/sys/unix"

// oldCreat is what libraries call creat here.
func oldCreat(path string, mode int) error { return opened(unix.Creat(path, uint32(mode))) }

func compat32([]string) error { return unix.ENOSYS }
func x32([]string) error      { return unix.ENOSYS }
