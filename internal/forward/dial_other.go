//go:build !linux

package forward

import (
	"errors"
	"net"
	"time"
)

func dialSocket(string, time.Duration) (net.Conn, error) { return nil, errors.ErrUnsupported }
