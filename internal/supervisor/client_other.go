//go:build !linux

package supervisor

func closeOnExec() error { return nil }
