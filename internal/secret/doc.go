// Package secret is about values that the user keeps for sandboxes: tokens, keys, passwords.
// They lie in the vault, one file that the program age opens, too. It has a label on its
// outside, which says what is in it: names, and when each was put there, but no values. The
// label is a stanza of the file's header, which age skips:
//
//	age-encryption.org/v1
//	-> coffer-secrets 1
//	(the lines NAME TIME, in base64)
//	-> X25519 …
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
