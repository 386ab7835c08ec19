package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/google/go-containerregistry/pkg/authn"
)

// dockerConfig is the file in which docker and its relatives keep what they log in with.
type dockerConfig struct {
	Auths       map[string]authn.AuthConfig `json:"auths"`
	CredsStore  string                      `json:"credsStore"`
	CredHelpers map[string]string           `json:"credHelpers"`
}

const maxDockerConfig = 1 << 20

// credentials are the user's for a registry, if there are any.
func (o Options) credentials(ctx context.Context, host string) (c authn.AuthConfig, err error) {
	path := filepath.Join(o.Home, ".docker", "config.json")
	if dir := os.Getenv("DOCKER_CONFIG"); filepath.IsAbs(dir) {
		path = filepath.Join(dir, "config.json")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read your credentials for registries: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDockerConfig))
	var d dockerConfig
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		return c, fmt.Errorf("read your credentials for registries: %s: %w", path, err)
	}
	names := []string{host, "https://" + host, "https://" + host + "/v1/", "https://" + host + "/v2/"}
	if host == hub {
		names = append([]string{authn.DefaultAuthKey}, names...)
	}
	for _, name := range names {
		helper := d.CredsStore
		if h := d.CredHelpers[name]; h != "" {
			helper = h
		}
		a, ok := d.Auths[name]
		if a.Auth != "" || a.IdentityToken != "" {
			return a, nil
		} else if helper != "" && (ok || d.CredHelpers[name] != "") {
			return o.helper(ctx, helper, name)
		}
	}
	return c, nil
}

// helper asks a credential helper, by docker's protocol. go-containerregistry's keychain would run the
// first program of that name on PATH, and a sandbox may have put it there.
func (o Options) helper(ctx context.Context, name, server string) (c authn.AuthConfig, err error) {
	if strings.Trim(name, letters+capital+digits+"-_") != "" {
		return c, fmt.Errorf("%q is not the name of a program for credentials", clip(name))
	}
	program := o.find("docker-credential-" + name)
	if program == "" {
		return c, fmt.Errorf("your credentials for registries are with docker-credential-%s, which is not on PATH", name)
	}
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	run := exec.CommandContext(ctx, program, "get")
	run.Stdin, run.Dir, run.WaitDelay = strings.NewReader(server), "/", time.Second
	var said bytes.Buffer
	run.Stdout = &said
	if err := run.Run(); err != nil {
		if strings.Contains(said.String(), "not found") {
			return c, nil // which is its word for none
		}
		return c, fmt.Errorf("ask docker-credential-%s for your credentials: %w", name, err)
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal(said.Bytes(), &answer); err != nil {
		return c, fmt.Errorf("ask docker-credential-%s for your credentials: %w", name, err)
	}
	if answer.Username == "<token>" {
		return authn.AuthConfig{IdentityToken: answer.Secret}, nil
	}
	return authn.AuthConfig{Username: answer.Username, Password: answer.Secret}, nil
}

// find looks for a program on PATH, except in directories that sandboxes write.
func (o Options) find(name string) string {
	var written []string
	if o.Written != nil {
		written = o.Written()
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		info, err := os.Stat(real)
		inside := slices.ContainsFunc(written, func(w string) bool {
			return safepath.Within(real, w) || safepath.Within(filepath.Join(dir, name), w)
		})
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !inside {
			return real
		}
	}
	return ""
}
