package testbed

import (
	"bytes"
	"fmt"
	"os"
)

// Stopped says whether a process or thread is stopped, as by SIGSTOP.
func Stopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T"))
}
