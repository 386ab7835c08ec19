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

// pathFor puts what the agent needs in front of PATH, and tools of the host's mise if the
// project asks for such.
func pathFor(place *agent.Place, sb *sandbox.Sandbox, home string) (env []string) {
	front := slices.Clone(place.Path)
	if shims := filepath.Join(home, ".local/share/mise/shims"); wantsMise(sb.Workspace.Path) && isDir(shims) {
		front = append(front, shims)
		// What is installed is the host's and read-only; what the project says is not
		// to be asked about.
		env = append(env, "MISE_TRUSTED_CONFIG_PATHS="+sb.Workspace.Path, "MISE_YES=1", "MISE_NOT_FOUND_AUTO_INSTALL=0")
	}
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	have := filepath.SplitList(path)
	front = slices.DeleteFunc(front, func(dir string) bool { return slices.Contains(have, dir) })
	return append(env, "PATH="+strings.Join(slices.Concat([]string{rootfs.Own + "/bin"}, front, have), ":"))
}

// wantsMise says whether a project names versions of tools. Only names are looked at.
func wantsMise(dir string) bool {
	for _, name := range []string{"mise.toml", ".mise.toml", ".tool-versions", "mise.local.toml", ".config/mise.toml", "mise/config.toml", ".mise/config.toml"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); dir != "" && err == nil {
			return true
		}
	}
	return false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
