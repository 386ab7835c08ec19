//go:build !linux

package secret

// keyringHere says whether there is a keyring to ask.
var keyringHere = func() error { return nil }
