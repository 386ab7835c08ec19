//go:build !linux

package knock

// There are no sandboxes to knock at.

func arguments() []string     { return nil }
func entries(string) []string { return nil }
func connect(_, _ string) int { return -1 }
func isTerminal(int) bool     { return true }
func same(int, int) bool      { return false }
func isNull(int) bool         { return false }
func exists(string) bool      { return true }
func wait(int)                {}
