package secret

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zalando/go-keyring"
)

// service is what the keyring's own programs show. The account is the vault's directory:
// there may be several.
const service = "coffer-vault-identity"

// How long the keyring may take. To find out whether there is one must not keep anybody
// waiting; but one that has the key may have to ask the user for a password first.
const patience = time.Minute

var trial = 3 * time.Second // a variable for tests

var errNoKeyring = errors.New("there is no keyring here")

// silent is set once a keyring has not answered: it is not asked again by this process.
var silent atomic.Bool

// inTime asks the keyring. Its client knows no deadlines, so one that does not answer is
// left alone: the process ends soon.
func inTime(d time.Duration, ask func() error) error {
	if err := keyringHere(); err != nil {
		return err
	}
	if silent.Load() {
		return errors.New("your keyring does not answer")
	}
	done := make(chan error, 1)
	go func() { done <- ask() }()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		silent.Store(true)
		return fmt.Errorf("your keyring did not answer within %s", d)
	}
}

// errNotInKeyring is for a keyring that answers, and has no key.
var errNotInKeyring = errors.New("your keyring has no key for it")

func fromKeyring(service, dir string, d time.Duration) (text string, err error) {
	answer := make(chan string, 1)
	err = inTime(d, func() error {
		text, err := keyring.Get(service, dir)
		answer <- text
		return err
	})
	if errors.Is(err, keyring.ErrNotFound) {
		return "", errNotInKeyring
	}
	if err != nil {
		return "", err
	}
	return <-answer, nil
}

// toKeyring puts a text there, and looks whether it can be had back: some keyrings only
// pretend.
func toKeyring(dir, text string, d time.Duration) error {
	return inTime(d, func() error {
		if err := keyring.Set(service, dir, text); err != nil {
			return err
		}
		got, err := keyring.Get(service, dir)
		if err == nil && got != text {
			err = errors.New("your keyring does not keep what it is given")
		}
		return err
	})
}

func outOfKeyring(dir string) error {
	err := inTime(patience, func() error { return keyring.Delete(service, dir) })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}
