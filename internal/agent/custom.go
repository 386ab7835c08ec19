package agent

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Custom describes an agent in a config file, or changes what is known about one; what is empty
// stays. It has the fields of config.Agent.
type Custom struct {
	Command, Package               string
	Args, Headless, Prompt, Resume []string
	Conversation, Instructions     string
	State, Credentials, Login      []string
	Env                            map[string]string
	Pass, CA, Hosts                []string
	Enabled                        *bool
}

// With returns an agent that is like another one but for what a config file says. Without
// another one, it is new.
func (c Custom) With(name string, base *Agent) *Agent {
	a := &Agent{Name: name, Title: name, Command: name}
	if base != nil {
		copied := *base
		a = &copied
	}
	if c.Command != "" {
		a.Command = c.Command
		if base != nil && len(a.Login) > 0 {
			a.Login = append([]string{c.Command}, a.Login[1:]...)
		}
	}
	a.Package, a.Talks = cmp.Or(c.Package, a.Package), cmp.Or(c.Conversation, a.Talks)
	if base != nil {
		a.Bypass = append(slices.Clone(a.Bypass), c.Args...)
	} else {
		a.Bypass, a.Argv = c.Args, Words{Resume: c.Resume, Headless: c.Headless, Prompt: c.Prompt}.argv
	}
	if c.Instructions != "" {
		files := a.Files
		a.Files = func(a *Agent, s Scene) (list []File) {
			if files != nil {
				list = files(a, s)
			}
			return append(list, File{Name: c.Instructions, Content: []byte(s.Text)})
		}
	}
	for _, f := range c.Credentials {
		a.Credentials = append(slices.Clone(a.Credentials), Credential{Name: f})
	}
	if len(c.Login) > 0 {
		a.Login = append([]string{a.Command}, c.Login...)
	}
	env := map[string]string{}
	maps.Copy(env, a.Env)
	maps.Copy(env, c.Env)
	a.Env = env
	a.Pass = append(slices.Clone(a.Pass), c.Pass...)
	a.CA = append(slices.Clone(a.CA), c.CA...)
	a.Hosts = append(slices.Clone(a.Hosts), c.Hosts...)
	known := a.Jail
	a.Jail = func() Jail { return c.jail(known) }
	return a
}

// jail is what the agent is in a jail, with what is known of it. The instructions that it
// reads by itself cannot be changed: it reads them without a jail, too.
func (c Custom) jail(known func() Jail) (j Jail) {
	if known != nil {
		j = known()
		if len(j.Args) > 0 {
			j.Args = append(slices.Clone(j.Args), c.Args...)
		}
	}
	for _, dir := range c.State {
		s := State{In: path.Dir(dir), Name: path.Base(dir)}
		if rest, ok := strings.CutPrefix(c.Instructions, dir+"/"); ok {
			s.Settings = files("", rest)
		}
		j.State = append(j.State, s)
	}
	return j
}

// Check says what is wrong with a description.
func (c Custom) Check() error {
	if strings.ContainsAny(c.Command, "/ \x00") {
		return fmt.Errorf("command %q must be the name of a program, which is looked for on PATH; args are for the rest", c.Command)
	}
	if p := c.Package; p != "" && (strings.HasPrefix(p, "-") || strings.Trim(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@") != "" || strings.Contains(p, "..")) {
		return fmt.Errorf("package %q is not the name of an npm package", p)
	}
	for _, f := range slices.Concat([]string{c.Instructions, c.Conversation}, c.Credentials, c.State) {
		if f != "" && (path.IsAbs(f) || path.Clean(f) != f || f == ".." || strings.HasPrefix(f, "../") || f == "." || strings.ContainsRune(f, 0)) {
			return fmt.Errorf("%q is not a path in the home: want something like .config/agent/auth.json", f)
		}
	}
	return nil
}
