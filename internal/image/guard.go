package image

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// guard bounds what a registry can do. Only a registry on this machine is asked without encryption;
// an answer other than 200 has no body; an answer that is not a blob ends after [maxManifest]; and a
// silent registry is given up.
type guard struct {
	ref   Reference
	inner *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.Clone(ctx)
	switch local := g.ref.loopback(); {
	case local && r.URL.Host == g.ref.host:
		r.URL.Scheme = "http"
	case r.URL.Scheme != "https" && !(local && r.URL.Scheme == "http"):
		cancel(nil)
		return nil, fmt.Errorf("the registry sends us to %s, without encryption", clip(r.URL.Redacted()))
	}
	answer, err := g.inner.RoundTrip(r)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		cancel(nil)
		answer.Body = http.NoBody
		return answer, nil
	}
	most := int64(maxManifest + 1)
	if r.Header.Get("Accept") == acceptBlob {
		most = maxUnpacked + 1
	}
	p := &patient{Reader: io.LimitReader(answer.Body, most), body: answer.Body, ctx: ctx, cancel: cancel}
	p.timer = time.AfterFunc(silence, func() { cancel(fmt.Errorf("the registry sent nothing for %s", silence)) })
	answer.Body = p
	return answer, nil
}

// patient gives up on a silent registry.
type patient struct {
	io.Reader
	body   io.Closer
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (p *patient) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.timer.Reset(silence)
	if err != nil && err != io.EOF && p.ctx.Err() != nil {
		err = context.Cause(p.ctx)
	}
	return n, err
}

func (p *patient) Close() error {
	p.timer.Stop()
	p.cancel(nil)
	return p.body.Close()
}
