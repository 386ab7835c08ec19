// Package vault opens and writes the file of secrets; what is on its outside is package
// secret's.
//
// The values are encrypted together, by AES-256-GCM with a nonce that is drawn for each
// writing, and the label is authenticated with them: a vault whose label was changed does
// not open. The key is random. It is kept in one of three places ([Keeping]): the keyring
// of the user's desktop; a file beside the vault; or such a file that a passphrase closes,
// for machines where nobody is logged in.
//
// All of the cryptography is the standard library's, which is part of the program anyway.
// filippo.io/age would do the same with more dependencies, and their initialisation would
// cost every start of every command a tenth of a millisecond (measured: 95 µs before a run,
// 55 µs before an exec), be there secrets or not. The keyring's client costs 13 µs, before
// a run only.
//
// Writers take a lock. Each file is written beside its place and renamed, the key before
// the vault that needs it, so that a crash leaves the old vault or the new one, and a key
// for it. Readers take no lock.
package vault
