package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/hint"
)

// registry is an image in a registry, by the distribution protocol.
type registry struct {
	ref    Reference
	client *http.Client
	login  func(context.Context) (credentials, error)

	mu    sync.Mutex
	token string // what the header Authorization says; "" as long as nobody asks for one
}

// How long a registry may be silent.
const silence = 60 * time.Second

func newRegistry(r Reference, o Options) *registry {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = silence
	t.DisableCompression = true // what is sent is what has the digest, whatever a header calls it
	if r.loopback() {
		// What is not encrypted stays on this machine, whatever its name leads to.
		t.Proxy = nil
		t.DialContext = (&net.Dialer{Timeout: silence, Control: onlyLoopback}).DialContext
	}
	reg := &registry{ref: r, login: func(ctx context.Context) (credentials, error) { return o.credentials(ctx, r.host) }}
	reg.client = &http.Client{Transport: t, CheckRedirect: reg.follow}
	return reg
}

func onlyLoopback(_, address string, _ syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is not on this machine, and without encryption no other is asked", address)
	}
	return nil
}

// follow allows to be sent elsewhere, as registries do for what is large; not to where there is
// no encryption, and never along with the credentials.
func (g *registry) follow(r *http.Request, via []*http.Request) error {
	if len(via) > 5 {
		return errors.New("the registry sends us around in circles")
	}
	if err := g.mayAsk(r.URL); err != nil {
		return err
	}
	if r.URL.Host != via[0].URL.Host {
		r.Header.Del("Authorization")
	}
	return nil
}

func (g *registry) mayAsk(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && g.ref.loopback() {
		return nil
	}
	return fmt.Errorf("the registry sends us to %s, without encryption", clip(u.Redacted()))
}

const accepted = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " +
	"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"

func (g *registry) manifest(ctx context.Context, name string) ([]byte, error) {
	r, err := g.listen(ctx, "manifests/"+name, accepted)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxManifest+1))
}

func (g *registry) blob(ctx context.Context, d descriptor) (io.ReadCloser, error) {
	return g.listen(ctx, "blobs/"+string(d.Digest), "*/*")
}

// listen asks for something, and hears the answer for as long as there is one.
func (g *registry) listen(ctx context.Context, what, accept string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := g.get(ctx, what, accept)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	p := &patient{ReadCloser: r.Body, ctx: ctx, cancel: cancel}
	p.timer = time.AfterFunc(silence, func() { cancel(fmt.Errorf("the registry said nothing for %s", silence)) })
	return p, nil
}

func (g *registry) close() { g.client.CloseIdleConnections() }

// patient gives up on a registry that falls silent.
type patient struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (p *patient) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.timer.Reset(silence)
	if err != nil && err != io.EOF && p.ctx.Err() != nil {
		err = context.Cause(p.ctx)
	}
	return n, err
}

func (p *patient) Close() error {
	p.timer.Stop()
	p.cancel(nil)
	return p.ReadCloser.Close()
}

// get asks the registry, and once more with a token if it wants one.
func (g *registry) get(ctx context.Context, what, accept string) (*http.Response, error) {
	for again := false; ; again = true {
		r, err := g.ask(ctx, g.ref.base()+g.ref.path+"/"+what, accept, g.authorization())
		if err != nil {
			return nil, g.failed(ctx, err)
		}
		if r.StatusCode == http.StatusOK {
			return r, nil
		}
		r.Body.Close() // unread: it may never end
		if r.StatusCode != http.StatusUnauthorized || again {
			return nil, g.refused(r.StatusCode)
		}
		if err := g.authorize(ctx, r.Header.Values("WWW-Authenticate")); err != nil {
			return nil, g.failed(ctx, err)
		}
	}
}

func (g *registry) ask(ctx context.Context, where, accept, authorization string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return g.client.Do(r)
}

func (g *registry) authorization() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.token
}

func (g *registry) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if hint.Of(err) != "" {
		return err
	}
	err = reason(err)
	return hint.Wrap(fmt.Errorf("the registry cannot be asked: %w", err), "%s", hintOr(err, "see that this machine reaches it, and try again: what was fetched whole is kept"))
}

func (g *registry) refused(code int) error {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return hint.New("the registry does not give it out: it is not there, or not for you",
			"look at the name; log in with 'docker login "+g.ref.host+"', whose credentials coffer reads")
	case http.StatusNotFound:
		return hint.New("the registry has no such image", "look at the name and the tag")
	case http.StatusTooManyRequests:
		return hint.New("the registry was asked too often", "wait, or log in with 'docker login "+g.ref.host+"'")
	}
	if code >= http.StatusInternalServerError {
		return hint.New(fmt.Sprintf("the registry is out of order and answers with %d", code), "try again later: what was fetched whole is kept")
	}
	return hint.New(fmt.Sprintf("the registry answers with %d", code), "look at the name: what answers at "+g.ref.host+" may be no registry")
}

// authorize gets what the registry wants to see, by the first way that it offers and we know.
func (g *registry) authorize(ctx context.Context, offers []string) error {
	who, err := g.login(ctx)
	if err != nil {
		return err
	}
	for _, offer := range offers {
		scheme, rest, _ := strings.Cut(offer, " ")
		token := ""
		switch {
		case strings.EqualFold(scheme, "bearer"):
			if token, err = g.bearer(ctx, parameters(rest), who); err != nil {
				return err
			}
		case strings.EqualFold(scheme, "basic") && who.user != "":
			token = who.basic()
		default:
			continue
		}
		g.mu.Lock()
		g.token = token
		g.mu.Unlock()
		return nil
	}
	return g.refused(http.StatusUnauthorized)
}

// bearer asks for a token for reading this one image.
func (g *registry) bearer(ctx context.Context, p map[string]string, who credentials) (string, error) {
	u, err := url.Parse(p["realm"])
	if err != nil || u.Host == "" {
		return "", errors.New("the registry does not say where tokens are to be had")
	}
	if err := g.mayAsk(u); err != nil {
		return "", err
	}
	q := u.Query()
	if p["service"] != "" {
		q.Set("service", p["service"])
	}
	q.Set("scope", "repository:"+g.ref.path+":pull")
	u.RawQuery = q.Encode()
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	r, err := g.ask(ctx, u.String(), "application/json", who.basic())
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return "", g.refused(r.StatusCode)
	}
	var answer struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&answer); err != nil {
		return "", errors.New("the token that it gives out cannot be read")
	}
	if answer.Token == "" {
		answer.Token = answer.Access
	}
	return "Bearer " + answer.Token, nil
}

// parameters are those of a challenge: name="value", name=value.
func parameters(text string) map[string]string {
	p := map[string]string{}
	for text != "" && len(p) < 16 {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		var value string
		if rest, ok = strings.CutPrefix(rest, `"`); ok {
			value, rest, _ = strings.Cut(rest, `"`)
			_, text, _ = strings.Cut(rest, ",")
		} else {
			value, text, _ = strings.Cut(rest, ",")
		}
		p[strings.ToLower(strings.Trim(name, " ,"))] = value
	}
	return p
}
