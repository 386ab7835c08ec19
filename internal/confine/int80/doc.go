// Package int80 enters the kernel by the 32-bit door, for the test that
// package confine has shut it. Nothing else should use it.
package int80
