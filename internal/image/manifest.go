package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/hint"
)

// What an image may have at most. Those of this world have a tenth of it.
const (
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
	maxLayers   = 512
	maxIndex    = 1000
	maxEnv      = 64 << 10 // of all variables together
)

// A descriptor says where something is found, by its hash.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      Digest            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

// A manifest lists the layers of an image; or, if it is an index, the images for several
// machines.
type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

// refName is the annotation by which an index of a directory says what is called how.
const refName = "org.opencontainers.image.ref.name"

// errManifest is what an answer is that is no registry's, or a file that is not an image's.
var errManifest = hint.New("what should be its manifest is not one", "look at the name: what is there may be something else than an image")

func parseManifest(data []byte) (*manifest, error) {
	if len(data) > maxManifest {
		return nil, fmt.Errorf("the manifest is larger than %d bytes", maxManifest)
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, errManifest
	}
	switch {
	case m.SchemaVersion == 1:
		return nil, errors.New("the manifest has the form of before 2016, which coffer does not read")
	case len(m.Manifests) > maxIndex || len(m.Layers) > maxLayers:
		return nil, fmt.Errorf("the manifest has %d layers, more than %d", len(m.Manifests)+len(m.Layers), maxLayers)
	case len(m.Manifests) > 0 && (len(m.Layers) > 0 || m.Config.Digest != ""):
		return nil, errors.New("the manifest is that of an image and a list of others, and who reads it could take it for either")
	case len(m.Manifests) > 0:
		return &m, nil
	}
	total := int64(0)
	for _, d := range append([]descriptor{m.Config}, m.Layers...) {
		if err := d.check(); err != nil {
			return nil, err
		}
		if total += d.Size; total > maxUnpacked {
			return nil, errLarge
		}
	}
	return &m, nil
}

func (d descriptor) check() error {
	if _, err := parseDigest(string(d.Digest)); err != nil {
		return fmt.Errorf("the manifest names something by %q: %w", clip(string(d.Digest)), err)
	}
	if d.Size < 0 || d.Size > maxUnpacked {
		return fmt.Errorf("the manifest has the size %d", d.Size)
	}
	return nil
}

// clip shortens what a stranger wrote, for a message.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// ours picks the image for this machine.
func (m *manifest) ours() (descriptor, error) {
	var known []string
	for _, d := range m.Manifests {
		p := d.Platform
		switch {
		case p == nil && len(m.Manifests) == 1:
			return d, d.check()
		case p == nil || p.OS == "unknown":
		case p.fits():
			return d, d.check()
		default:
			known = append(known, clip(p.OS+"/"+p.Architecture))
		}
	}
	if len(known) == 0 {
		return descriptor{}, hint.New("it is a list of images that does not say for which machines they are", "name one of them by its tag or digest")
	}
	slices.Sort(known)
	return descriptor{}, hint.New(fmt.Sprintf("the image is not made for this machine, linux/%s, but for %s", runtime.GOARCH, strings.Join(slices.Compact(known), ", ")),
		"choose an image that is")
}

func (p *platform) fits() bool {
	return p.OS == "linux" && p.Architecture == runtime.GOARCH && (p.Variant == "" || p.Architecture != "arm64" || p.Variant == "v8")
}

// config is what an image says about itself. Most of it is of no use here.
type config struct {
	platform
	Config struct {
		Env []string `json:"Env"`
	} `json:"config"`
	RootFS struct {
		DiffIDs []Digest `json:"diff_ids"` // the layers' hashes without compression
	} `json:"rootfs"`
}

func parseConfig(data []byte, layers int) (*config, error) {
	if len(data) > maxConfig {
		return nil, fmt.Errorf("the image's config is larger than %d bytes", maxConfig)
	}
	var c config
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, errors.New("what should be the image's config is not one")
	}
	if c.OS != "" && !c.fits() {
		return nil, hint.New(fmt.Sprintf("the image is for %s/%s, and this machine is linux/%s", clip(c.OS), clip(c.Architecture), runtime.GOARCH), "choose an image that is made for it")
	}
	if len(c.RootFS.DiffIDs) != layers {
		return nil, fmt.Errorf("the image's config is about %d layers, and there are %d", len(c.RootFS.DiffIDs), layers)
	}
	for _, d := range c.RootFS.DiffIDs {
		if _, err := parseDigest(string(d)); err != nil {
			return nil, fmt.Errorf("the image's config names a layer by %q: %w", clip(string(d)), err)
		}
	}
	c.Config.Env = variables(c.Config.Env)
	return &c, nil
}

// variables are those that a program can be given. What is not like one is left out, and what
// coffer says itself, too.
func variables(env []string) (list []string) {
	total := 0
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		if total += len(e); total > maxEnv {
			break
		}
		if ok && name != "" && utf8.ValidString(e) && !strings.ContainsRune(e, 0) && !strings.HasPrefix(name, "COFFER_") {
			list = append(list, e)
		}
	}
	return list
}

func digestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(sha + hex.EncodeToString(sum[:]))
}
