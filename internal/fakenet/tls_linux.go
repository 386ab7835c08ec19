package fakenet

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"net"
	"sync"
	"time"
)

// OuterName is the server name that an encrypted ClientHello shows.
const OuterName = "good.example"

// authority signs a certificate for any name.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	config *tls.Config

	mu   sync.Mutex
	made map[string]*tls.Certificate
}

func (w *World) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fake authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	a := &authority{cert: cert, key: key, made: map[string]*tls.Certificate{}}
	a.config = &tls.Config{GetCertificate: a.certificate}
	w.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	w.authority = a
	return w.encryptHellos()
}

func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c, ok := hello.Conn.(tapped); ok {
		c.entry.say([]byte(" sni=" + hello.ServerName + " "))
	}
	name := hello.ServerName
	if name == "" {
		name = "nobody.invalid"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.made[name]; c != nil {
		return c, nil
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(a.made) + 2)), DNSNames: []string{name},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	a.made[name] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	return a.made[name], nil
}

// serveTLS serves HTTP over TLS. The log has the bytes of the wire, the server name, and
// what was decrypted.
func serveTLS(w *World, c net.Conn, e *entry) {
	t := tls.Server(tapped{c, e}, w.authority.config)
	if t.Handshake() != nil {
		return
	}
	if h := w.site(t.ConnectionState().ServerName); h != nil {
		c.SetDeadline(time.Time{}) // answers take their time
		serveSite(tapped{t, e}, h)
		return
	}
	speakHTTP(tapped{t, e})
}

// encryptHellos gives the servers a key for encrypted ClientHellos, and the world the
// list (RFC 9849) that a client needs to use it.
func (w *World) encryptHellos() error {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	const kemX25519, kdfSHA256, aeadAES128 = 0x20, 1, 1
	two := func(b []byte, n int) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }
	config := []byte{1} // its number
	config = two(config, kemX25519)
	config = append(two(config, 32), key.PublicKey().Bytes()...)
	config = two(two(two(config, 4), kdfSHA256), aeadAES128)
	config = append(config, 64, byte(len(OuterName))) // the longest name to hide
	config = append(config, OuterName...)
	config = two(config, 0) // no extensions
	one := append(two([]byte{0xfe, 0x0d}, len(config)), config...)
	w.ECH = append(two(nil, len(one)), one...)
	w.authority.config.EncryptedClientHelloKeys = []tls.EncryptedClientHelloKey{{Config: one, PrivateKey: key.Bytes()}}
	return nil
}
