package sandbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/ui"
)

// label puts a vault there that has only its outside.
func label(t *testing.T, lines string) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	dir, err := secret.Dir()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, secret.OldName), []byte("coffer vault 1\n"+lines+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func withVault(t *testing.T, f func(string) (string, error)) {
	was := secretValue
	secretValue = f
	t.Cleanup(func() { secretValue = was })
}

// The environment counts more than the vault, which is opened only for what is in it.
func TestFill(t *testing.T) {
	label(t, "LANG 2026-11-15T19:00:00Z\nS 2026-11-15T19:00:00Z\nSHUT 2026-11-15T19:00:00Z\n")
	var opened []string
	withVault(t, func(name string) (string, error) {
		if opened = append(opened, name); name == "SHUT" {
			return "", ui.Error("it is shut", "open it")
		}
		return "*" + name, nil
	})
	t.Setenv("V", "v")
	t.Setenv("LANG", "") // so that it is as it was afterwards
	os.Unsetenv("LANG")
	for _, c := range []struct{ in, want, opened string }{
		{"${V}", "v", ""},
		{"${V:-${S}}", "v", ""},
		{"${NONE:-x}", "x", ""},
		{"${secret:NONE:-x}", "x", ""},
		{"${LANG:-x}", "x", ""}, // goes in anyway, so it is no secret
		{"${S}", "*S", "S"},
		{"${S:-x}", "*S", "S"},
		{"${secret:S}", "*S", "S"},
		{"${secret:LANG}", "*LANG", "LANG"},
		{"${NONE}", "error: nor is there a secret of that name", ""},
		{"${secret:V}", "error: needs the secret V, which is not in your vault", ""},
		{"${SHUT:-x}", "error: needs the secret SHUT: it is shut", "SHUT"},
	} {
		opened = nil
		got, err := FillTemplate(c.in)
		if words, bad := strings.CutPrefix(c.want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), words) || ui.HintOf(err) == "" {
				t.Errorf("%s: %q, %v", c.in, got, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.in, got, err)
		}
		if s := strings.Join(opened, " "); s != c.opened {
			t.Errorf("%s opened the vault for %q", c.in, s)
		}
	}
	t.Setenv("S", "")
	if got, err := FillTemplate("${S}<${S:-x}>"); err != nil || got != "<x>" {
		t.Errorf("set, but empty: %q, %v", got, err)
	}
}

// What opens the vault goes in by no way, not even by a record that somebody has changed.
func TestRefused(t *testing.T) {
	t.Setenv(secret.Variable, "correct horse")
	t.Setenv("OTHER", "other")
	sb := &Sandbox{Record: Record{Env: []string{secret.Variable, "OTHER"}}}
	env, err := environment(Person{}, sb, os.Environ(), nil, false)
	if all := string(bytes.Join(env, []byte("\n"))); err != nil || strings.Contains(all, "horse") || !strings.Contains(all, "OTHER=other") {
		t.Errorf("passed on: %s, %v", all, err)
	}
	sb.Env, sb.EnvFrom = nil, []string{"P=x${" + secret.Variable + ":-y}"}
	if env, err := environment(Person{}, sb, os.Environ(), nil, false); err == nil {
		t.Errorf("by a template: %s", env)
	}
	sb.EnvFrom = nil
	for _, asked := range []string{secret.Variable, secret.Variable + "=x", secret.Variable + "="} {
		if _, err := environment(Person{}, sb, os.Environ(), []string{asked}, false); !errors.Is(err, ErrVariable) {
			t.Errorf("%s: %v", asked, err)
		}
	}
}
