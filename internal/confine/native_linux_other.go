//go:build linux && !amd64 && !arm64

package confine

// native is nil where there is no table; Seccomp then says so.
var native *abi
