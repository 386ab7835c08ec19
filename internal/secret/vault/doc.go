// Package vault opens and writes the file of secrets; what is on its outside is package
// secret's.
//
// The file is encrypted by filippo.io/age to one X25519 identity, which is made with the vault and
// kept in one of three places ([Keeping]): the keyring of the user's desktop; a file beside the
// vault; or such a file that a passphrase closes (age's scrypt), for machines where nobody is
// logged in. With the identity in a file, 'age -d -i identity secrets.age' prints the values, as
// JSON with base64. The label is authenticated with the header: a vault whose label was changed
// does not open.
//
// Writers take a lock. Each file is written beside its place and renamed, the identity before
// the vault that needs it, so that a crash leaves the old vault or the new one, and the identity
// for it. Readers take no lock.
//
// A vault of the time before, AES-256-GCM in a format of coffer's own, is replaced when it is first
// opened (old.go). Its files stay, under other names.
package vault
