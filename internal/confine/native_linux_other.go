//go:build !amd64 && !arm64

package confine

// native is nil: there is no table for this architecture, and Seccomp fails.
func native() *abi { return nil }
