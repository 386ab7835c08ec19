package image

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"

	"github.com/cofferhq/coffer/internal/ui"
)

// reason says what kept somebody from answering. What Go's packages say has the address, the
// protocol and the call in it, each more than once.
func reason(err error) error {
	var name *net.DNSError
	var op *net.OpError
	var number syscall.Errno
	var asked *url.Error
	if !errors.As(err, &asked) { // which may have in it what a stranger wrote
		return errors.New("its answer to the login was not understood")
	}
	host := asked.URL
	if u, err := url.Parse(asked.URL); err == nil {
		host = u.Host
	}
	if errors.As(err, &op) && op.Op == "proxyconnect" {
		host = "the proxy"
	}
	host = clip(host)
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return ui.Error("cannot reach the registry: there is no host "+clip(name.Name), "check this machine's network; if you wrote the host, check that too")
	case errors.As(err, &name):
		return fmt.Errorf("the address of %s cannot be looked up", clip(name.Name))
	case asked.Timeout():
		return fmt.Errorf("%s does not answer", host)
	case errors.As(err, &number):
		return fmt.Errorf("%s: %w", host, number)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s hangs up without an answer", host)
	}
	return asked.Err
}
