package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// maxCertificates bounds a file of certificates.
const maxCertificates = 4 << 20

// trustToo has the agent trust the authorities that the user's own programs trust by a
// variable, as they do behind a company's proxy.
func trustToo(home *agent.Home, where string, a *agent.Agent) (env []string, err error) {
	file := ""
	for _, name := range slices.Concat(a.CA, []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"}) {
		if file = os.Getenv(name); file != "" {
			break
		}
	}
	if file == "" || len(a.CA) == 0 {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificates that your environment names: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCertificates))
	if err != nil {
		return nil, fmt.Errorf("read the certificates that your environment names: %w", err)
	}
	const name = agent.Managed + "/ca.pem"
	for _, v := range a.CA {
		env = append(env, v+"="+filepath.Join(where, name))
	}
	return env, home.Write(name, data)
}

// pathFor puts what the agent needs in front of the PATH that programs of the sandbox have.
func pathFor(place *agent.Place, sb *sandbox.Sandbox) (env []string, err error) {
	e, err := sandbox.NewExec(sb, []string{place.Program}, nil, false)
	if err != nil {
		return nil, err
	}
	var have []string
	for _, v := range e.Env {
		if path, ok := strings.CutPrefix(string(v), "PATH="); ok {
			have = filepath.SplitList(path)
		}
	}
	own := rootfs.Own + "/bin"
	have = slices.DeleteFunc(have, func(dir string) bool { return dir == own })
	front := slices.DeleteFunc(slices.Clone(place.Path), func(dir string) bool { return slices.Contains(have, dir) })
	return []string{"PATH=" + strings.Join(slices.Concat([]string{own}, front, have), ":")}, nil
}
