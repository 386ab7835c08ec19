package link

import (
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

func TestPacketTooLong(t *testing.T) {
	if _, err := packet(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.18.0.2"), header.UDPProtocolNumber, make([]byte, 65530)); err == nil {
		t.Error("a packet that is too long was made")
	}
}
