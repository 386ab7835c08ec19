package intercept

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
)

const (
	leafLife  = 24 * time.Hour
	leafSkew  = time.Hour // clocks inside may be behind
	maxLeaves = 256
	maxPEM    = 16 << 10
)

// An Authority signs what programs of one sandbox are shown in place of a server's certificate.
// No other sandbox trusts it, and its key never leaves the host.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex
	leaf   *ecdsa.PrivateKey // of all leaves of this process
	leaves map[string]*tls.Certificate
}

// OpenAuthority reads an authority from a file, or makes one and the file. One at a time may do so.
func OpenAuthority(path string) (*Authority, error) {
	data, err := safepath.ReadOwn(path, maxPEM)
	if errors.Is(err, fs.ErrNotExist) {
		if data, err = newAuthority(); err == nil {
			err = safepath.File{Path: path, Synced: true, Alone: true}.Write(data)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the sandbox's certificate authority: %w", err)
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s is damaged: it holds no certificate authority", path)
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &Authority{cert: pair.Leaf, key: key, leaf: leaf, leaves: map[string]*tls.Certificate{}}, err
}

// newAuthority makes a key and its certificate, in PEM.
func newAuthority() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(private)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: fmt.Sprintf("coffer sandbox %x", sum[:4])},
		NotBefore: now.Add(-leafSkew), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

// PEM is the certificate by which programs inside know the authority.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// certificate is that of a host, a name or an address.
func (a *Authority) certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if c := a.leaves[host]; c != nil && now.Before(c.Leaf.NotAfter.Add(-leafLife/2)) {
		return c, nil
	}
	template := &x509.Certificate{
		SerialNumber: serial(), NotBefore: now.Add(-leafSkew), NotAfter: now.Add(leafLife),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.leaf.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf, Leaf: leaf}
	a.leaves[host] = c
	return c, nil
}
