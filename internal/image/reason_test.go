package image

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/ui"
)

// What Go says of a failed request becomes a few words.
func TestReason(t *testing.T) {
	get := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://registry.example.com/v2/a/manifests/1", Err: err}
	}
	dial := func(op string, err error) error { return get(&net.OpError{Op: op, Net: "tcp", Err: err}) }
	for want, err := range map[string]error{
		"dial tcp: lookup registry.example.com: no such host": dial("dial", &net.DNSError{Err: "no such host", Name: "registry.example.com", IsNotFound: true}),
		"registry.example.com: connection refused":            dial("dial", syscall.ECONNREFUSED),
		"registry.example.com: no route to host":              dial("proxyconnect", syscall.EHOSTUNREACH),
		"registry.example.com does not answer":                get(context.DeadlineExceeded),
		"the registry sends us around in circles":             get(errors.New("the registry sends us around in circles")),
		"its answer to the login was not understood":          errors.New("no token in bearer response:\n\x1b[2J"),
	} {
		if got := reason(err).Error(); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// A registry that fails, and what is none, is one sentence and a hint that fits.
func TestAnswers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v2/":
		case strings.Contains(r.URL.Path, "broken"):
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.Contains(r.URL.Path, "page"):
			_, _ = w.Write([]byte("<html>welcome</html>"))
		case strings.Contains(r.URL.Path, "silent"):
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	for name, want := range map[string][2]string{
		"broken": {"the registry is out of order and answers with 503", "try again later"},
		"page":   {"what should be its manifest is not one", "may be something else than an image"},
		"silent": {"cannot reach the registry: " + host + " hangs up without an answer", "check that this machine can reach " + host + ""},
		"other":  {"the registry answers with 418", "may be no registry"},
	} {
		r, err := Parse(host + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.TempDir()).Pull(t.Context(), r, Options{Home: t.TempDir()})
		if want := "pull " + host + "/" + name + ":latest: " + want[0]; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if !strings.Contains(ui.HintOf(err), want[1]) {
			t.Errorf("%s: hint %q, want %q", name, ui.HintOf(err), want[1])
		}
	}
}
