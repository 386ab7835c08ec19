// Package intercept looks into TLS where a rule, a secret or a script needs it.
package intercept

import "net/http"

// A Stage sees every request to a host that it wants, and the response. Stages are a chain: each
// calls the next one, and the last one sends the request to the server.
//
// Before the first stage the rules have allowed the request; its method, host and path are what
// they decided about, and a stage must not change the host. The request is the one that leaves, so
// a stage may change it in place. It is sent only on a connection on which the server has proved,
// by a certificate, to be that host.
//
// A stage that changes a body wraps it: nothing is buffered, as a body may be an upload of
// gigabytes or a stream of events that never ends. If the length changes, ContentLength becomes -1
// and the field Content-Length goes. Trailers of a response are there when its body was read. The
// body of a response with status 101 is an [io.ReadWriteCloser], the connection from there on; what
// a stage puts in its place must be one too.
//
// An error refuses the request. One that is a *[Refusal] is told to the program as it is, and all
// others as a failure of the gateway, which is a reason to keep secrets out of them. A response
// that comes with an error is dropped. A stage is used from several goroutines at once.
type Stage interface {
	// Wants reports whether the stage needs to see what is said to a host. It may not block.
	Wants(host string, port uint16) bool
	// Exchange answers a request, usually with what next answers. The host is
	// req.URL.Hostname, canonical; req.Host is as the program wrote it.
	Exchange(req *http.Request, next http.RoundTripper) (*http.Response, error)
}

// A Refusal is an error that a program inside is told.
type Refusal struct {
	Status int    // of the answer, 403 if it is zero
	Rule   string // what refuses: a rule, a secret, a script
	Reason string // one sentence, which programs inside read
	Allow  string // what the user does to allow it, if anything helps
}

func (r *Refusal) Error() string { return r.Reason }
