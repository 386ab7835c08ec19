package sniff

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Descriptions of TLS alerts.
const (
	AlertUnexpectedMessage uint8 = 10
	AlertRecordOverflow    uint8 = 22
	AlertIllegalParameter  uint8 = 47
	AlertAccessDenied      uint8 = 49
	AlertDecodeError       uint8 = 50
	AlertProtocolVersion   uint8 = 70
	AlertUnrecognizedName  uint8 = 112
)

// Alert returns the record of a fatal TLS alert. Before the server has said anything
// every client takes it, whatever version it will speak.
func Alert(desc uint8) []byte {
	const fatal = 2
	return []byte{recordAlert, 3, 3, 0, 2, fatal, desc}
}

// Answer returns a whole HTTP response, with body as JSON, that ends the connection.
func Answer(status int, body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		text = []byte("{}")
	}
	text = append(text, '\n')
	head := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Cache-Control: no-store\r\nConnection: close\r\n\r\n", status, http.StatusText(status), len(text))
	return append(head, text...)
}
