//go:build !linux

package vault

// keyringHere says whether there is a keyring to ask.
var keyringHere = func() error { return nil }
