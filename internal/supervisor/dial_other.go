//go:build !linux

package supervisor

import (
	"errors"
	"net"
	"time"
)

func dialSocket(string, time.Duration) (net.Conn, error) { return nil, errors.ErrUnsupported }
