package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/image"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/secret"
)

// A dev container's settings are JSON with comments, in another tool's language. They are read when
// the user asks for it, and turned into lines of a coffer.toml that he can read before they count.

// devContainer are the settings that mean something here.
type devContainer struct {
	Image         string         `json:"image"`
	ForwardPorts  []any          `json:"forwardPorts"`
	RemoteEnv     map[string]any `json:"remoteEnv"`
	ContainerEnv  map[string]any `json:"containerEnv"`
	Mounts        []any          `json:"mounts"`
	PostCreate    any            `json:"postCreateCommand"`
	Features      map[string]any `json:"features"`
	Build         any            `json:"build"`
	DockerCompose any            `json:"dockerComposeFile"`
}

// devContainerFiles are the places it can be in.
var devContainerFiles = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// DevContainer turns a repository's devcontainer.json into the text of a config, to be added to a
// starter. It is "" if there is none.
func DevContainer(root string) (text string, err error) {
	dir, err := safepath.OpenDir(root)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	for _, name := range devContainerFiles {
		data, err := safepath.ReadFile(dir, name, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			text, err = translate(data)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return "\n# From " + name + ":\n" + text, nil
	}
	return "", nil
}

func translate(data []byte) (string, error) {
	var d devContainer
	if err := json.Unmarshal(agent.StripComments(data), &d); err != nil {
		return "", fmt.Errorf("is not what a dev container's settings look like: %w", err)
	}
	var b strings.Builder
	no := func(what string) { fmt.Fprintf(&b, "# not taken over: %s\n", printable(what)) }
	if _, err := image.Parse(d.Image); d.Image != "" && err != nil {
		no("image: " + err.Error())
	} else if d.Image != "" {
		fmt.Fprintf(&b, "image = %s\n", tomlString(d.Image))
	}
	if d.Build != nil {
		no("build: this machine's own tools are used")
	}
	if d.DockerCompose != nil {
		no("dockerComposeFile: list the ports of its services in host_ports")
	}
	if len(d.Features) > 0 {
		no("features: what they bring is not installed")
	}
	for _, name := range unknownTo(data) {
		no(name)
	}
	b.WriteString(d.ports() + d.env() + d.mounts() + d.setup())
	return b.String(), nil
}

// meaningless are settings of editors and of the container itself, which are left out silently.
const meaningless = "name $schema customizations settings extensions remoteUser containerUser updateRemoteUserUID workspaceFolder workspaceMount shutdownAction overrideCommand portsAttributes otherPortsAttributes userEnvProbe waitFor service runServices"

// unknownTo lists the settings that would do something in a dev container, and do nothing here.
func unknownTo(data []byte) (names []string) {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(agent.StripComments(data), &all) // it was read already
	for _, f := range reflect.VisibleFields(reflect.TypeFor[devContainer]()) {
		delete(all, f.Tag.Get("json"))
	}
	for name := range strings.FieldsSeq(meaningless) {
		delete(all, name)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(name) <= 60 && len(names) < 20 {
			names = append(names, name)
		}
	}
	return names
}

// setup: the command after creation is a line for a shell, a program with its arguments, or several
// of these by name, which are run one after the other.
func (d *devContainer) setup() string {
	named := map[string]any{"": d.PostCreate}
	if several, ok := d.PostCreate.(map[string]any); ok {
		named = several
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if c := shellLine(named[name]); c != "" && !strings.ContainsRune(c, 0) {
			list = append(list, tomlString(c))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "setup.commands = [" + strings.Join(list, ", ") + "]\n"
}

func shellLine(command any) string {
	switch c := command.(type) {
	case string:
		return strings.TrimSpace(c)
	case []any:
		var words []string
		for _, w := range c {
			text, ok := w.(string)
			if !ok {
				return ""
			}
			words = append(words, "'"+strings.ReplaceAll(text, "'", `'\''`)+"'")
		}
		return strings.Join(words, " ")
	}
	return ""
}

// ports: what the dev container forwards to the machine is published here.
func (d *devContainer) ports() string {
	var list []string
	for _, p := range d.ForwardPorts {
		n, ok := p.(float64)
		if s, isText := p.(string); isText {
			v, err := strconv.Atoi(strings.TrimPrefix(s, "localhost:"))
			n, ok = float64(v), err == nil
		}
		if text := strconv.FormatFloat(n, 'f', 0, 64); ok && n >= 1 && n <= 65535 && n == float64(int(n)) && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "network.publish = [" + strings.Join(list, ", ") + "]\n"
}

// env: ${localEnv:NAME} is this machine's variable.
func (d *devContainer) env() string {
	all := map[string]any{}
	maps.Copy(all, d.ContainerEnv)
	maps.Copy(all, d.RemoteEnv)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value, ok := all[name].(string)
		if !ok {
			continue
		}
		converted, ok := localEnv(value)
		if !ok || checkVariable(name) != nil {
			fmt.Fprintf(&b, "# not taken over: the variable %s\n", printable(quote(name)))
			continue
		}
		fmt.Fprintf(&b, "env.set.%s = %s\n", name, tomlString(converted))
	}
	return b.String()
}

// localEnv turns a dev container's variables into ours. Others than localEnv have no
// meaning here.
func localEnv(s string) (out string, ok bool) {
	out = localVariable().ReplaceAllString(strings.ReplaceAll(s, "$", "$$"), "$${${1}:-${2}}")
	_, err := secret.Mentions(out)
	return out, err == nil && !strings.Contains(out, "$${") && !strings.ContainsRune(out, 0)
}

var localVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\$\{localEnv:(\w+)(?::([^${}]*))?\}`) })

// mounts: those of directories, not of volumes.
func (d *devContainer) mounts() string {
	var b strings.Builder
	n := 0
	for _, m := range d.Mounts {
		parts := map[string]string{}
		switch m := m.(type) {
		case string:
			for p := range strings.SplitSeq(m, ",") {
				k, v, _ := strings.Cut(p, "=")
				parts[k] = v
			}
		case map[string]any:
			for k, v := range m {
				parts[k], _ = v.(string)
			}
		}
		source, ok := homely(parts["source"])
		if parts["type"] != "bind" || !ok || checkSource(source) != nil || checkTarget(parts["target"]) != nil {
			fmt.Fprintf(&b, "# not taken over: the mount on %s\n", printable(quote(parts["target"])))
			continue
		}
		n++
		fmt.Fprintf(&b, "mounts.devcontainer-%d = { source = %s, target = %s }\n", n, tomlString(source), tomlString(parts["target"]))
	}
	return b.String()
}

// homely writes a path of a dev container as ours.
func homely(s string) (string, bool) {
	s = strings.NewReplacer("${localEnv:HOME}", "~", "${localWorkspaceFolder}/", "", "${localWorkspaceFolder}", ".").Replace(s)
	return s, s != "" && !strings.Contains(s, "${") && (filepath.IsAbs(s) || !strings.HasPrefix(s, "-"))
}
