package config

import (
	"strings"
	"testing"
)

// What a dev container asks for becomes lines of a config, or a remark.
func TestDevContainer(t *testing.T) {
	w := newWorld(t)
	if text, err := DevContainer(w.Dir); text != "" || err != nil {
		t.Fatal(text, err)
	}
	w.write(".devcontainer/devcontainer.json", `// a comment
{
	"image": "debian", /* another, with "quotes" */
	"forwardPorts": [3000, "localhost:8080", 3000, "db:5432", 0, 1.5, "x",],
	"remoteEnv": { "A": "${localEnv:TOKEN}", "B": "x$y//z", "C": "${containerEnv:PATH}", "D": "${localEnv:L:info}", "E E": "x", "COFFER_X": "y", "N": null },
	"mounts": [
		"source=${localEnv:HOME}/data,target=/data,type=bind,consistency=cached",
		{ "source": "${localWorkspaceFolder}/sub", "target": "/sub", "type": "bind" },
		"source=cache,target=/cache,type=volume",
		"source=/x,target=/etc/x,type=bind",
	],
	"postCreateCommand": "npm ci",
	"customizations": { "editor": {} },
	"privileged": true,
	"onCreateCommand": "x",
}`)
	text, err := DevContainer(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	want := `
# From .devcontainer/devcontainer.json:
image = "debian"
# not taken over: onCreateCommand
# not taken over: privileged
network.publish = [3000, 8080]
env.set.A = "${TOKEN:-}"
env.set.B = "x$$y//z"
# not taken over: the variable "C"
# not taken over: the variable "COFFER_X"
env.set.D = "${L:-info}"
# not taken over: the variable "E E"
mounts.devcontainer-1 = { source = "~/data", target = "/data" }
mounts.devcontainer-2 = { source = "sub", target = "/sub" }
# not taken over: the mount on "/cache"
# not taken over: the mount on "/etc/x"
setup.commands = ["npm ci"]
`
	if text != want {
		t.Errorf("got %s", text)
	}
	w.write("coffer.toml", text)
	got, err := w.load().Widens(usual)
	if err != nil || len(got) != 5 {
		t.Errorf("asks for %q, %v", got, err)
	}
	// With a starter it is still one file.
	w.write("coffer.toml", Starter([]Finding{{"go", "go.mod"}}, nil, nil, text))
	if c := w.load().Config; len(c.Presets) != 1 || len(c.Network.Publish) != 2 || len(c.Mounts) != 2 {
		t.Errorf("got %+v", c)
	}
	for _, bad := range []string{"[]", "{", "x", `{"image": 1}`} {
		w.write(".devcontainer/devcontainer.json", bad)
		if text, err := DevContainer(w.Dir); err == nil {
			t.Errorf("%q became %q", bad, text)
		}
	}
}

// A command after creation comes in three forms.
func TestPostCreate(t *testing.T) {
	for in, want := range map[string]string{
		`"npm ci && make"`:                  `setup.commands = ["npm ci && make"]`,
		`["npm", "ci", "it's"]`:             `setup.commands = ["'npm' 'ci' 'it'\\''s'"]`,
		`{"b": "two", "a": ["one"], "c":1}`: `setup.commands = ["'one'", "two"]`,
		`null`:                              ``,
		`["x", 1]`:                          ``,
		`" "`:                               ``,
	} {
		text, err := translate([]byte(`{"postCreateCommand": ` + in + `}`))
		if err != nil || strings.TrimSpace(text) != want {
			t.Errorf("%s became %q, %v", in, text, err)
		}
	}
}

// Whatever a dev container's file says, what is made of it is a valid config.
func FuzzDevContainer(f *testing.F) {
	for _, s := range []string{`{"forwardPorts":[1],"remoteEnv":{"A":"${localEnv:B:c}"}}`, `{"mounts":["source=/a,target=/b,type=bind"]}`, `{/**/}//`, `{"image":"\u001b"}`} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := translate(data)
		if err != nil {
			return
		}
		l := &Loaded{places: Places{Dir: dir, Home: dir}}
		if _, problems := l.layer("f", []byte(text), false, nil); len(problems) > 0 && len(data) < 1000 {
			t.Fatalf("%q became\n%s\n%v", data, text, problems)
		}
		if strings.ContainsRune(text, 0x1b) {
			t.Fatalf("%q became %q", data, text)
		}
	})
}
