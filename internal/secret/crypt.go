package secret

import (
	"bytes"
	"errors"
	"io"

	"filippo.io/age"
)

// labelled puts the label into the header, as a recipient that nobody is.
type labelled []byte

func (l labelled) Wrap([]byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: stanza, Args: []string{stanzaVersion}, Body: l}}, nil
}

// seal makes the vault's file.
func seal(id *age.X25519Identity, plain, label []byte) ([]byte, error) {
	return encrypt(plain, labelled(label), id.Recipient())
}

func encrypt(plain []byte, to ...age.Recipient) ([]byte, error) {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

var errNotOpened = errors.New("does not open")

// unseal is the reverse. What was changed, and another identity, look the same.
func unseal(file []byte, id age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(file), id)
	if err != nil {
		return nil, errNotOpened
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, errNotOpened
	}
	return plain, nil
}
