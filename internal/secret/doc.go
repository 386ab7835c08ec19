// Package secret is about values that the user keeps for sandboxes: tokens, keys, passwords.
// They lie in the vault, one file that is encrypted as a whole. It has a label on its
// outside, which says what is in it: names, and when each was put there, but no values.
//
//	coffer vault 1
//	GITHUB_TOKEN 2026-11-15T19:00:00Z
//	NPM_TOKEN 2026-11-01T08:30:00Z
//
//	(encrypted, and the label is authenticated with it)
//
// This package reads the label, and needs no key for it. So a program's start that has
// nothing to do with secrets, or asks for one that is not there, pays for a small file at
// most: the cryptography and the keyring are in package vault, which is asked for a value
// only. Names are not secret: config files, and the lists that the user agrees to, have
// them too.
//
// Where a value goes is decided by templates in config files (see package template): into
// the environment variable of a program in a sandbox, and to no other place. It is neither
// in a sandbox's record nor in a log, nor an argument of anything.
package secret

// Variable holds the vault's passphrase, if it has one.
const Variable = "COFFER_VAULT_PASSPHRASE"
