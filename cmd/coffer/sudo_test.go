package main

import (
	"reflect"
	"testing"
)

func TestSudoArgs(t *testing.T) {
	env := []string{"FOO=old", "BAR=b"}
	for _, c := range []struct {
		args, rest, env []string
		user            string
		shell, done     bool
		fails           bool
	}{
		{args: []string{"id", "-u"}, rest: []string{"id", "-u"}, env: env},
		{args: []string{"-n", "-E", "--", "-x"}, rest: []string{"-x"}, env: env},
		{args: []string{"FOO=new", "printenv"}, rest: []string{"printenv"}, env: []string{"BAR=b", "FOO=new"}},
		{args: []string{"-u", "root", "id"}, rest: []string{"id"}, env: env},
		{args: []string{"-uroot", "id"}, rest: []string{"id"}, env: env},
		{args: []string{"--user=root", "id"}, rest: []string{"id"}, env: env},
		{args: []string{"-i"}, env: env, shell: true},
		{args: []string{"-v"}, done: true},
		{args: []string{"-u", "joe", "id"}, rest: []string{"id"}, env: env, user: "joe"},
		{args: []string{"-ujoe", "id"}, rest: []string{"id"}, env: env, user: "joe"},
		{args: []string{"--user=joe", "id"}, rest: []string{"id"}, env: env, user: "joe"},
		{args: []string{"-niu", "joe"}, env: env, user: "joe", shell: true},
		{args: []string{"FOO=new", "-Eiujoe", "--preserve-env=A,B", "id", "A=1"}, rest: []string{"id", "A=1"}, env: []string{"BAR=b", "FOO=new"}, user: "joe", shell: true},
		{args: []string{"--", "A=1"}, rest: []string{"A=1"}, env: env},
		{args: []string{"-u", "", "id"}, fails: true},
		{args: []string{"-u", "#1000", "id"}, fails: true},
		{args: []string{"-u"}, fails: true},
		{args: []string{"-D", "/tmp", "pwd"}, fails: true},
	} {
		s, err := sudoArgs(c.args, env)
		if c.fails {
			if err == nil {
				t.Errorf("%q was accepted", c.args)
			}
			continue
		}
		if c.done {
			c.env = s.env
		}
		if err != nil || s.user != c.user || s.shell != c.shell || s.done != c.done || !reflect.DeepEqual(s.env, c.env) || len(s.args)+len(c.rest) > 0 && !reflect.DeepEqual(s.args, c.rest) {
			t.Errorf("%q: got %+v, %v", c.args, s, err)
		}
	}
}
