package supervisor

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// A Person is the user, who is the same inside and outside.
type Person struct {
	Name     string
	UID, GID int
	Home     string
	Shell    string
}

// Me is the calling user.
var Me = sync.OnceValue(me)

func me() Person {
	p := Person{UID: os.Getuid(), GID: os.Getgid(), Home: os.Getenv("HOME"), Shell: os.Getenv("SHELL")}
	if u, err := user.LookupId(strconv.Itoa(p.UID)); err == nil {
		p.Name = u.Username
		if p.Home == "" {
			p.Home = u.HomeDir
		}
	}
	if p.Name == "" {
		p.Name = "user" + strconv.Itoa(p.UID)
	}
	p.Home = filepath.Clean(p.Home)
	if !filepath.IsAbs(p.Home) || p.Home == "/" {
		p.Home = "/home/" + p.Name
	}
	if !filepath.IsAbs(p.Shell) {
		p.Shell = "/bin/sh"
	}
	return p
}

// accounts returns replacements for /etc/passwd and /etc/group where the host's do
// not know the user, as with accounts from a directory service.
func (p Person) accounts() (passwd, group string) {
	if b, err := os.ReadFile("/etc/passwd"); err == nil && !lists(string(b), p.UID) {
		passwd = string(b) + fmt.Sprintf("%s:x:%d:%d::%s:%s\n", p.Name, p.UID, p.GID, p.Home, p.Shell)
	}
	if b, err := os.ReadFile("/etc/group"); err == nil && !lists(string(b), p.GID) {
		group = string(b) + fmt.Sprintf("%s:x:%d:\n", p.Name, p.GID)
	}
	return passwd, group
}

// lists says whether a file of colon-separated lines has the id in its third field.
func lists(file string, id int) bool {
	for line := range strings.SplitSeq(file, "\n") {
		fields := strings.SplitN(line, ":", 4)
		if len(fields) >= 3 && fields[2] == strconv.Itoa(id) {
			return true
		}
	}
	return false
}
