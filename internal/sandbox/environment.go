package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// ErrVariable is wrapped by every error about a variable that the user named.
var ErrVariable = errors.New("environment")

// NewExec is a program in a sandbox: the arguments, or a shell if there are none. extra are variables,
// NAME=value, or NAME to pass one on.
func NewExec(sb *Sandbox, args, extra []string, root bool) (e wire.Exec, err error) {
	me := Me()
	if len(args) == 0 {
		args = []string{shell(me, sb)}
		if args[0] == "" {
			return e, ui.Error(fmt.Sprintf("the image %s has no shell", sb.Image.Ref), "say which of its programs to run")
		}
	}
	for _, a := range args {
		e.Argv = append(e.Argv, []byte(a))
	}
	e.Dir, e.Root, e.Umask = cmp.Or(sb.Workspace.Path, me.Home), root, OwnUmask()
	e.Env, err = environment(me, sb, os.Environ(), extra, root)
	return e, err
}

// shell is the user's shell, or that of the image.
func shell(me Person, sb *Sandbox) string {
	if sb.Image.None() {
		return me.Shell
	}
	return sb.Image.Shell
}

// StartDir is where in a sandbox a command of the user's starts: in the current directory if that is
// below the workspace, or where the sandbox was made; "" for the default.
func StartDir(sb *Sandbox) string {
	here, _ := syscall.Getwd() // as the kernel has it, without links
	return dirFrom(sb, here)
}

func dirFrom(sb *Sandbox, here string) string {
	w := sb.Workspace
	switch {
	case w.Path == "" || here == w.Path:
		return ""
	case utf8.ValidString(here) && safepath.Within(here, w.Path):
		return here
	case w.Start == "":
		return ""
	}
	dir := filepath.Join(w.Path, w.Start)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return "" // it is gone meanwhile
	}
	return dir
}

// PassesVariable says which variables pass by themselves: language, terminal, taste. All others may
// hold a secret, a socket, or a library to load.
func PassesVariable(name string) bool {
	switch name {
	case "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORFGBG",
		"VTE_VERSION", "KONSOLE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "TERMINAL_EMULATOR", // which terminal it is
		"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES",
		"EDITOR", "VISUAL", "PAGER", "LESS", "CI", "PATH":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// environment is the sorted environment of a program inside. theirs is the caller's.
func environment(me Person, sb *Sandbox, theirs, extra []string, root bool) (list [][]byte, err error) {
	env := identity(me, sb, theirs, root)
	for _, e := range sb.Env {
		if name, value, ok := strings.Cut(e, "="); ok {
			env[name] = value
		} else if i := slices.IndexFunc(theirs, func(e string) bool { return strings.HasPrefix(e, name+"=") }); i >= 0 && RefusedVariable(name) == nil {
			env[name] = theirs[i][len(name)+1:]
		}
	}
	for _, e := range sb.EnvFrom {
		name, text, _ := strings.Cut(e, "=")
		if env[name], err = FillTemplate(text); err != nil {
			return nil, ui.Hint(variable("the variable %s of sandbox %s %s", name, sb.Name, err), "%s", ui.HintOf(err))
		}
	}
	if root {
		env["PATH"] = RootPath(env["PATH"])
	}
	for _, e := range extra {
		name, value, err := Variable(e)
		if err != nil {
			return nil, err
		}
		env[name] = value
	}
	for name, value := range env {
		list = append(list, []byte(name+"="+value))
	}
	slices.SortFunc(list, bytes.Compare)
	return list, nil
}

// identity is what every program gets.
func identity(me Person, sb *Sandbox, theirs []string, root bool) map[string]string {
	env := map[string]string{}
	for _, e := range sb.Image.Env {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	for _, e := range theirs {
		if name, value, ok := strings.Cut(e, "="); ok && PassesVariable(name) && (name != "PATH" || sb.Image.None()) {
			env[name] = value
		}
	}
	env["PATH"] = rootfs.Own + "/bin:" + cmp.Or(env["PATH"], "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	home, name := me.Home, me.Name
	if root {
		if me.UID != 0 {
			home = "/root"
		}
		name = "root"
	}
	maps.Copy(env, map[string]string{
		"HOME": home, "USER": name, "LOGNAME": name, "SHELL": cmp.Or(shell(me, sb), "/bin/sh"), "TMPDIR": "/tmp", "COFFER_SANDBOX": sb.ID,
	})
	if sb.Network.Inspects() {
		trust(env)
	}
	if len(sb.Profile) > 0 {
		env["ENV"] = rootfs.ProfileFile // which sh reads; for other shells see the home
	}
	return env
}

// trust tells programs that do not look where the system has its authorities of the sandbox's own.
func trust(env map[string]string) {
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE"} {
		env[name] = rootfs.Bundle
	}
	for _, name := range []string{"NODE_EXTRA_CA_CERTS", "DENO_CERT"} { // beside those of the program
		env[name] = rootfs.Authority
	}
}

// Variable is a variable that the user asks for, NAME=value, or NAME to pass one on.
func Variable(e string) (name, value string, err error) {
	name, value, ok := strings.Cut(e, "=")
	if name == "" || strings.ContainsRune(e, 0) {
		return "", "", variable("%q is not an environment variable: want NAME=value, or NAME to pass yours on", e)
	}
	if err := RefusedVariable(name); err != nil || ok {
		return name, value, err
	}
	value, ok, err = PassedVariable(name)
	switch {
	case err != nil:
		err = ui.Hint(variable("the variable %s %s", name, err), "%s", ui.HintOf(err))
	case !ok:
		err = ui.Hint(variable("the environment variable %s is not set, and there is no secret of that name", name),
			"export it, give it a value (-e %s=value), or keep it: coffer secret set %s", name, name)
	}
	return name, value, err
}

// KeepVariables adds variables to the record of a sandbox that stays, over those of its config. Of a
// variable that is passed on only the name is kept, and a secret is read from the vault each time.
func KeepVariables(rec *Record, extra []string) error {
	for _, e := range extra {
		name, _, err := Variable(e)
		if err != nil {
			return err
		}
		same := func(o string) bool { n, _, _ := strings.Cut(o, "="); return n == name }
		rec.Env, rec.EnvFrom = slices.DeleteFunc(rec.Env, same), slices.DeleteFunc(rec.EnvFrom, same)
		if _, set := os.LookupEnv(name); set || strings.Contains(e, "=") {
			rec.Env = append(rec.Env, e)
		} else {
			rec.EnvFrom = append(rec.EnvFrom, name+"=${secret:"+name+"}")
		}
	}
	return nil
}

// variable is an error about a variable that the user asked for.
func variable(format string, args ...any) error {
	return variableError{fmt.Sprintf(format, args...)}
}

type variableError struct{ string }

func (e variableError) Error() string { return e.string }
func (e variableError) Unwrap() error { return ErrVariable }

// RootPath adds administrators' directories, which a user's PATH may lack.
func RootPath(path string) string {
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(filepath.SplitList(path), dir) {
			path += ":" + dir
		}
	}
	return path
}

// OwnUmask is the umask of this process, nil for the usual one. It is read from /proc: the system call
// would set another one, for all threads.
func OwnUmask() *uint16 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "Umask:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(text), 8, 9)
			if own := uint16(mask); err == nil && own != wire.UsualUmask {
				return &own
			}
		}
	}
	return nil
}

// secretValue gives the value of a secret that is there. A variable for tests.
var secretValue = secret.Lookup

// FillTemplate expands a template of a config file. ${NAME} is the user's variable or, if it is not
// set, the secret; ${secret:NAME} is the secret.
func FillTemplate(text string) (string, error) {
	return secret.Expand(text, func(r secret.Ref) (string, bool, error) {
		if !r.Secret {
			return PassedVariable(r.Name)
		}
		return secretNamed(r.Name)
	})
}

// RefusedVariable refuses the variable that opens the vault, whatever its value.
func RefusedVariable(name string) error {
	if name != secret.Variable {
		return nil
	}
	return ui.Hint(variable("%s opens your vault, and goes into no sandbox", name), "pass the secrets on that are needed there: -e NAME")
}

// PassedVariable is the value of a variable that the user passes on by its name: his own, or the secret.
func PassedVariable(name string) (value string, ok bool, err error) {
	if RefusedVariable(name) != nil {
		return "", false, fmt.Errorf("needs %s, which opens your vault and goes into no sandbox", name)
	}
	if value, ok = os.LookupEnv(name); ok || PassesVariable(name) {
		return value, ok, nil
	}
	return secretNamed(name)
}

// secretNamed opens the vault only if it has the secret.
func secretNamed(name string) (value string, ok bool, err error) {
	dir, err := secret.Dir()
	if err != nil {
		return "", false, nil // no home, no vault
	}
	label, err := secret.ReadLabel(dir)
	if err != nil || !label.Has(name) {
		return "", false, err
	}
	if value, err = secretValue(name); err != nil {
		return "", false, ui.Hint(fmt.Errorf("needs the secret %s: %w", name, err), "%s", ui.HintOf(err))
	}
	return value, true, nil
}
