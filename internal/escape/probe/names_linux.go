package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// names are attempts with DNS and TLS: to tell something by asking for a name, and to
// reach another server than the one that was allowed.
var names = map[string]func([]string) error{
	"lookup": func(a []string) error {
		_, err := net.DefaultResolver.LookupHost(context.Background(), a[0])
		return plainly(err)
	},
	"dns": ask,
	"tls": func(a []string) error { return handshake(a, nil, nil) },
	"ech": func(a []string) error {
		keys, err := base64.StdEncoding.DecodeString(a[3])
		if err != nil {
			return err
		}
		return handshake(a, keys, nil)
	},
	"tls-bytes":   func(a []string) error { return handshake(a, nil, byBytes) },
	"tls-slow":    func(a []string) error { return handshake(a, nil, slowly) },
	"tls-records": func(a []string) error { return handshake(a, nil, byRecords) },
}

var kinds = map[string]dnsmessage.Type{
	"a": dnsmessage.TypeA, "aaaa": dnsmessage.TypeAAAA, "txt": dnsmessage.TypeTXT, "ptr": dnsmessage.TypePTR, "mx": dnsmessage.TypeMX,
	"any": dnsmessage.TypeALL, "null": 10, "https": 65,
}

// ask asks a server for a name: network, server, name, kind. It gets through if the
// server says that the name exists.
func ask(a []string) error {
	text, err := url.PathUnescape(a[2])
	if err != nil {
		return err
	}
	name, err := dnsmessage.NewName(text + ".")
	if err != nil {
		return err
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 4711, RecursionDesired: true})
	b.StartQuestions()
	b.Question(dnsmessage.Question{Name: name, Type: kinds[a[3]], Class: dnsmessage.ClassINET})
	b.StartAdditionals()
	var edns dnsmessage.ResourceHeader
	edns.SetEDNS0(1232, dnsmessage.RCodeSuccess, false)
	b.OPTResource(edns, dnsmessage.OPTResource{})
	query, err := b.Finish()
	if err != nil {
		return err
	}
	c, err := reach(a[0], a[1])
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := roundTrip(c, query, a[0] == "tcp")
	if err != nil {
		return plainly(err)
	}
	return understand(answer)
}

func roundTrip(c net.Conn, query []byte, prefixed bool) ([]byte, error) {
	if prefixed {
		query = append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	}
	if _, err := c.Write(query); err != nil {
		return nil, err
	}
	if !prefixed {
		b := make([]byte, 4096)
		n, err := c.Read(b)
		return b[:n], err
	}
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(c, b)
	return b, err
}

// understand says what an answer comes to. A refusal has to say why.
func understand(answer []byte) error {
	var m dnsmessage.Message
	if err := m.Unpack(answer); err != nil {
		return err
	}
	why := ""
	for _, r := range m.Additionals {
		opt, ok := r.Body.(*dnsmessage.OPTResource)
		if !ok {
			continue
		}
		for _, o := range opt.Options {
			if o.Code == 15 && len(o.Data) > 2 { // extended DNS error
				why = string(o.Data[2:])
			}
		}
	}
	note = why
	switch {
	case m.RCode == dnsmessage.RCodeSuccess && len(m.Answers) > 0:
		return nil
	case m.RCode == dnsmessage.RCodeSuccess:
		return fact("NO-DATA")
	case m.RCode == dnsmessage.RCodeNameError && why == "":
		return fact("NXDOMAIN-UNEXPLAINED")
	case m.RCode == dnsmessage.RCodeNameError:
		return fact("NXDOMAIN")
	}
	return fact(m.RCode.String())
}

// handshake speaks TLS with a server by a name, and says a word: host:port, name ("-"
// for none), word. What it meets is the number of the alert. The ClientHello may be
// encrypted, and sent in an unusual way.
func handshake(a []string, ech []byte, way func(net.Conn, []byte) error) error {
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	name := a[1]
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true, EncryptedClientHelloConfigList: ech}
	if name == "-" {
		config.ServerName, name = "", "nobody.example"
	}
	if path := os.Getenv("SSL_CERT_FILE"); path != "" {
		config.InsecureSkipVerify = false
	}
	if ech != nil {
		config.InsecureSkipVerify, config.EncryptedClientHelloRejectionVerify = true, func(tls.ConnectionState) error { return nil }
		config.MinVersion = tls.VersionTLS13
	}
	if way != nil {
		c = &odd{c, way}
	}
	t := tls.Client(c, config)
	if _, err = fmt.Fprintf(t, "GET /%s HTTP/1.1\r\nHost: %s\r\n\r\n", a[2], name); err == nil {
		_, err = t.Read(make([]byte, 16))
	}
	if err != nil && strings.Contains(err.Error(), "unexpected handshake message") {
		return fact("NO-TLS")
	}
	return alerted(err)
}

// alerted is what an error of TLS comes to.
func alerted(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" { // then Err is the alert
		if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
			return fact(fmt.Sprintf("ALERT-%d", v.Uint()))
		}
	}
	return plainly(err)
}

// odd sends the first thing that is written to it in its own way.
type odd struct {
	net.Conn
	way func(net.Conn, []byte) error
}

func (o *odd) Write(b []byte) (int, error) {
	way := o.way
	if way == nil {
		return o.Conn.Write(b)
	}
	o.way = nil
	if err := way(o.Conn, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// byBytes sends every byte by itself.
func byBytes(c net.Conn, b []byte) error {
	for _, one := range b {
		if _, err := c.Write([]byte{one}); err != nil {
			return err
		}
	}
	return nil
}

// slowly makes a pause after the first byte, as if it waited for an answer.
func slowly(c net.Conn, b []byte) error {
	if _, err := c.Write(b[:1]); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	_, err := c.Write(b[1:])
	return err
}

// byRecords cuts one record into many small ones.
func byRecords(c net.Conn, b []byte) error {
	var all []byte
	for rest := b[5:]; len(rest) > 0; {
		n := min(len(rest), 200)
		all = append(append(all, b[0], b[1], b[2], 0, byte(n)), rest[:n]...)
		rest = rest[n:]
	}
	_, err := c.Write(all)
	return err
}
