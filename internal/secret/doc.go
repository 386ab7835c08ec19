// Package secret keeps values that the user wants to give to sandboxes: tokens, keys, passwords.
// They lie in the vault, one file that the program age opens, too. It has a label on its
// outside, which says what is in it: names, and when each was put there, but no values. The
// label is a stanza of the file's header, which age skips:
//
//	age-encryption.org/v1
//	-> coffer-secrets 1
//	(the lines NAME TIME, in base64)
//	-> X25519 …
//
// The label is read without a key, so that a start that needs no secret asks no keyring. It is
// authenticated with the header: a vault whose label was changed does not open. Names are not
// secret: config files, and the lists that the user agrees to, have them too.
//
// The file is encrypted to one X25519 identity, which is made with the vault and kept in one of
// three places ([Keeping]): the keyring of the user's desktop; a file beside the vault; or such a
// file that a passphrase closes (age's scrypt), for machines where nobody is logged in. With the
// identity in a file, 'age -d -i identity secrets.age' prints the values, as JSON with base64.
//
// Writers take a lock. Each file is replaced by rename, the identity before the vault that needs
// it, so that a crash leaves the old vault or the new one, and the identity for it. Readers take
// no lock. A vault of the time before age is replaced when it is first opened; its files stay,
// under other names.
//
// Where a value goes is decided by templates in config files (see package template): into
// the environment variable of a program in a sandbox, and to no other place. It is neither
// in a sandbox's record nor in a log, nor an argument of anything.
package secret

// Variable holds the vault's passphrase, if it has one.
const Variable = "COFFER_VAULT_PASSPHRASE"
