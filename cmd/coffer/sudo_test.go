package main

import (
	"reflect"
	"testing"
)

func TestSudoArgs(t *testing.T) {
	env := []string{"FOO=old", "BAR=b"}
	for _, c := range []struct {
		args, rest, env []string
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
		{args: []string{"-u", "joe", "id"}, fails: true},
		{args: []string{"-ujoe", "id"}, fails: true},
		{args: []string{"--user=joe", "id"}, fails: true},
		{args: []string{"-D", "/tmp", "pwd"}, fails: true},
	} {
		rest, got, shell, done, err := sudoArgs(c.args, env)
		if c.fails {
			if err == nil {
				t.Errorf("%q was accepted", c.args)
			}
			continue
		}
		if err != nil || shell != c.shell || done != c.done || !reflect.DeepEqual(got, c.env) || len(rest)+len(c.rest) > 0 && !reflect.DeepEqual(rest, c.rest) {
			t.Errorf("%q: got %q, %q, %v, %v, %v", c.args, rest, got, shell, done, err)
		}
	}
}
