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

	"github.com/cofferhq/coffer/internal/ui"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Bounds of an image. Real ones have a tenth of it.
const (
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
	maxLayers   = 512
	maxIndex    = 1000
	maxEnv      = 64 << 10 // of all variables together
)

// A manifest lists the layers of an image; or, if it is an index, the images for several machines.
type manifest struct {
	SchemaVersion int             `json:"schemaVersion"`
	Config        v1.Descriptor   `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
	Manifests     []v1.Descriptor `json:"manifests,omitempty"`
}

// refName is the annotation by which an index of a directory says what is called how.
const refName = "org.opencontainers.image.ref.name"

// errManifest is what an answer is that is no registry's, or a file that is not an image's.
var errManifest = ui.Error("what should be its manifest is not one", "look at the name: what is there may be something else than an image")

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
	case len(m.Manifests) > 0 && (len(m.Layers) > 0 || m.Config.Digest != (v1.Hash{})):
		return nil, errors.New("the manifest is an image and an index at once")
	case len(m.Manifests) > 0:
		return &m, nil
	}
	total := int64(0)
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if err := check(d); err != nil {
			return nil, err
		}
		if total += d.Size; total > maxUnpacked {
			return nil, errLarge
		}
	}
	return &m, nil
}

func check(d v1.Descriptor) error {
	if d.Digest.Algorithm != "sha256" {
		return fmt.Errorf("the manifest names a part by %q, which is not a SHA-256 digest", clip(d.Digest.String()))
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
func (m *manifest) ours() (v1.Descriptor, error) {
	var known []string
	for _, d := range m.Manifests {
		p := d.Platform
		switch {
		case p == nil && len(m.Manifests) == 1:
			return d, check(d)
		case p == nil || p.OS == "unknown":
		case fits(*p):
			return d, check(d)
		default:
			known = append(known, clip(p.OS+"/"+p.Architecture))
		}
	}
	if len(known) == 0 {
		return v1.Descriptor{}, ui.Error("it is a list of images that does not say for which machines they are", "name one of them by its tag or digest")
	}
	slices.Sort(known)
	return v1.Descriptor{}, ui.Error(fmt.Sprintf("the image is not made for this machine, linux/%s, but for %s", runtime.GOARCH, strings.Join(slices.Compact(known), ", ")),
		"choose an image that is")
}

func fits(p v1.Platform) bool {
	return p.OS == "linux" && p.Architecture == runtime.GOARCH && (p.Variant == "" || p.Architecture != "arm64" || p.Variant == "v8")
}

// config is what an image says about itself. Most of it is of no use here.
type config struct {
	v1.Platform
	Config struct {
		Env              []string
		Entrypoint       []string
		User, WorkingDir string
	} `json:"config"`
	RootFS struct {
		DiffIDs []v1.Hash `json:"diff_ids"` // the layers' hashes without compression
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
	if c.OS != "" && !fits(c.Platform) {
		return nil, ui.Error(fmt.Sprintf("the image is for %s/%s, and this machine is linux/%s", clip(c.OS), clip(c.Architecture), runtime.GOARCH), "choose an image that is made for it")
	}
	if len(c.RootFS.DiffIDs) != layers {
		return nil, fmt.Errorf("the image's config lists %d layers, the manifest %d", len(c.RootFS.DiffIDs), layers)
	}
	for _, d := range c.RootFS.DiffIDs {
		if d.Algorithm != "sha256" {
			return nil, fmt.Errorf("the image's config names a layer by %q, which is not a SHA-256 digest", clip(d.String()))
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

// ignored names what the image would have a program be given, and coffer does not.
func (c *config) ignored() (list []string) {
	if len(c.Config.Entrypoint) > 0 {
		list = append(list, "ENTRYPOINT")
	}
	if u, _, _ := strings.Cut(c.Config.User, ":"); u != "" && u != "root" && u != "0" {
		list = append(list, "USER")
	}
	if d := c.Config.WorkingDir; d != "" && d != "/" {
		list = append(list, "WORKDIR")
	}
	return list
}

func digestOf(data []byte) v1.Hash {
	sum := sha256.Sum256(data)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}
