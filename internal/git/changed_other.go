//go:build !linux

package git

import "syscall"

func changed(*syscall.Stat_t) int64 { return 0 }
