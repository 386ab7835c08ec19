//go:build !linux

package sandbox

import "errors"

// shortDir has no way to name a directory shortly: only Linux has /proc.
func shortDir(string) (string, func(), error) {
	return "", nil, errors.New("it is too long for a socket's address")
}
