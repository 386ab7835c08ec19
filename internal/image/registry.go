package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// registry is an image in a registry. The login is go-containerregistry's; what a registry may
// send, and where it may send us, is bounded by [guard].
type registry struct {
	ref    Reference
	guard  *guard
	client *http.Client // logged in
}

// silence is how long a registry may send nothing.
const silence = 60 * time.Second

func newGuard(r Reference) *guard {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = silence
	t.DisableCompression = true // what is sent is what has the digest, whatever a header calls it
	if r.loopback() {
		// What is not encrypted stays on this machine, whatever its name leads to.
		t.Proxy = nil
		t.DialContext = (&net.Dialer{Timeout: silence, Control: onlyLoopback}).DialContext
	}
	return &guard{ref: r, inner: t}
}

// newRegistry logs in, if the registry wants that.
func newRegistry(ctx context.Context, r Reference, o Options) (*registry, error) {
	g := &registry{ref: r, guard: newGuard(r)}
	who, err := o.credentials(ctx, r.host)
	if err != nil {
		return nil, err
	}
	host := r.host
	if host == hub {
		host = name.DefaultRegistry
	}
	repository, err := name.NewRepository(host + "/" + r.path)
	if err != nil {
		return nil, err
	}
	login, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	in, err := transport.NewWithContext(login, repository.Registry, authn.FromConfig(who), g.guard, []string{repository.Scope(transport.PullScope)})
	if err != nil {
		return nil, g.failed(ctx, err)
	}
	g.client = &http.Client{Transport: in}
	return g, nil
}

func onlyLoopback(_, address string, _ syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is not on this machine, and no other is asked without encryption", address)
	}
	return nil
}

func (g *registry) close() { g.guard.inner.CloseIdleConnections() }

const (
	acceptManifest = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " +
		"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
	// acceptBlob is also how the guard knows an answer that may be large.
	acceptBlob = "application/octet-stream, */*"
)

func (g *registry) manifest(ctx context.Context, name string) ([]byte, error) {
	r, err := g.get(ctx, "manifests/"+name, acceptManifest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (g *registry) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	return g.get(ctx, "blobs/"+d.Digest.String(), acceptBlob)
}

func (g *registry) get(ctx context.Context, what, accept string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.ref.base()+g.ref.path+"/"+what, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	answer, err := g.client.Do(r)
	if err != nil {
		return nil, g.failed(ctx, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, g.refused(answer.StatusCode)
	}
	return answer.Body, nil
}

// failed explains why there was no answer.
func (g *registry) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var answer *transport.Error
	if errors.As(err, &answer) {
		return g.refused(answer.StatusCode)
	}
	return ui.Hint(fmt.Errorf("cannot reach the registry: %w", reason(err)), "check that this machine can reach %s, and try again: parts that were fetched whole are kept", g.ref.host)
}

// refused explains a status.
func (g *registry) refused(code int) error {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ui.Error("the registry does not give it out: it does not exist, or you may not have it",
			"check the name; log in with 'docker login "+g.ref.host+"', whose credentials coffer reads")
	case http.StatusNotFound:
		return ui.Error("the registry has no such image", "check the name and the tag")
	case http.StatusTooManyRequests:
		return ui.Error("the registry was asked too often", "wait, or log in with 'docker login "+g.ref.host+"'")
	}
	if code >= http.StatusInternalServerError {
		return ui.Error(fmt.Sprintf("the registry is out of order and answers with %d", code), "try again later: parts that were fetched whole are kept")
	}
	return ui.Error(fmt.Sprintf("the registry answers with %d", code), "check the name: what answers at "+g.ref.host+" may be no registry")
}

// reason is a short form of a failed request, with the host once.
func reason(err error) error {
	var number syscall.Errno
	var asked *url.Error
	if !errors.As(err, &asked) { // it may quote a stranger
		return errors.New("its answer to the login was not understood")
	}
	host := asked.URL
	if u, err := url.Parse(asked.URL); err == nil {
		host = u.Host
	}
	host = clip(host)
	switch {
	case asked.Timeout():
		return fmt.Errorf("%s does not answer", host)
	case errors.As(err, &number):
		return fmt.Errorf("%s: %w", host, number)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s hangs up without an answer", host)
	}
	return asked.Err
}
