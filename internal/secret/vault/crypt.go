package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// keySize is that of AES-256.
const keySize = 32

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal encrypts plain, and has label authenticated with it.
func seal(key, plain, label []byte) ([]byte, error) {
	a, err := aead(key)
	if err != nil {
		return nil, err
	}
	return a.Seal(nil, nil, plain, label), nil
}

var errNotOpened = errors.New("does not open")

// unseal is the reverse. What was changed, and another key, look the same.
func unseal(key, sealed, label []byte) ([]byte, error) {
	a, err := aead(key)
	if err != nil {
		return nil, err
	}
	plain, err := a.Open(nil, nil, sealed, label)
	if err != nil {
		return nil, errNotOpened
	}
	return plain, nil
}

// rounds is how much work it is to try a passphrase: about a fifth of a second. It is kept
// with what it was used for, so it can be raised.
var rounds = 600_000

// stretch makes a key of a passphrase.
func stretch(passphrase string, salt []byte, rounds int) ([]byte, error) {
	return pbkdf2.Key(sha256.New, passphrase, salt, rounds, keySize)
}
