package sandbox

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEnvironment(t *testing.T) {
	t.Setenv("PATH", "/a:/sbin")
	t.Setenv("LC_ALL", "C")
	t.Setenv("AWS_SECRET", "hunter2")
	t.Setenv("SSH_AUTH_SOCK", "/s")
	me := Person{Name: "me", UID: 1000, Home: "/home/me", Shell: "/bin/zsh"}
	sb := &Sandbox{Record: Record{ID: "abcdefgh", Env: []string{"A=1", "HOME=/sandbox"}}}
	get := func(extra []string, root bool) map[string]string {
		env, err := environment(me, sb, os.Environ(), extra, root)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(env, slices.Compare) {
			t.Errorf("not in order: %q", env)
		}
		all := map[string]string{}
		for _, e := range env {
			name, value, _ := strings.Cut(string(e), "=")
			if _, twice := all[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			all[name] = value
		}
		return all
	}
	env := get([]string{"A=2", "AWS_SECRET"}, false)
	for name, want := range map[string]string{
		"PATH": "/.coffer/bin:/a:/sbin", "LC_ALL": "C", "USER": "me", "SHELL": "/bin/zsh", "TMPDIR": "/tmp",
		"COFFER_SANDBOX": "abcdefgh", "A": "2", "HOME": "/sandbox", "AWS_SECRET": "hunter2",
	} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	if _, ok := env["SSH_AUTH_SOCK"]; ok {
		t.Error("a variable that nobody asked for went in")
	}
	sb.Env = nil
	env = get(nil, true)
	if env["HOME"] != "/root" || env["USER"] != "root" || env["PATH"] != "/.coffer/bin:/a:/sbin:/usr/local/sbin:/usr/sbin" || env["AWS_SECRET"] != "" {
		t.Errorf("root has %q", env)
	}
	for _, bad := range []string{"=x", "", "A\x00=b", "NOT_SET_AT_ALL"} {
		if _, err := environment(me, sb, os.Environ(), []string{bad}, false); !errors.Is(err, ErrVariable) {
			t.Errorf("%q gave %v", bad, err)
		}
	}
}

// With an image, PATH and the shell are its own, and what else it says counts least.
func TestEnvironmentOfImage(t *testing.T) {
	t.Setenv("PATH", "/host/bin")
	t.Setenv("LANG", "C.UTF-8")
	me := Person{Name: "me", UID: 1000, Home: "/home/me", Shell: "/bin/zsh"}
	sb := &Sandbox{Record: Record{ID: "abcdefgh", Env: []string{"B=config"}, Image: Image{
		Ref: "x", Digest: "sha256:1", Shell: "/bin/ash", Env: []string{"PATH=/image/bin", "A=image", "B=image", "HOME=/image", "LANG=image"},
	}}}
	env, err := environment(me, sb, os.Environ(), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	all := string(bytes.Join(env, []byte("\n")))
	for name, want := range map[string]string{
		"PATH": "/.coffer/bin:/image/bin", "A": "image", "B": "config", "HOME": "/home/me", "LANG": "C.UTF-8", "SHELL": "/bin/ash",
	} {
		if !strings.Contains("\n"+all+"\n", "\n"+name+"="+want+"\n") {
			t.Errorf("%q, want %s=%q", all, name, want)
		}
	}
	sb.Image.Env, sb.Image.Shell = nil, ""
	if env, err = environment(me, sb, os.Environ(), nil, false); err != nil || bytes.Contains(bytes.Join(env, nil), []byte("/host/bin")) {
		t.Errorf("without any: %q, %v", env, err)
	}
	if _, err := NewExec(sb, nil, nil, false); err == nil {
		t.Error("an image without a shell gives one")
	}
}
