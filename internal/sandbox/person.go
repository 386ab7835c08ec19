package sandbox

import (
	"cmp"
	"fmt"
	"os"
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
	p := Person{UID: os.Getuid(), GID: os.Getgid()}
	passwd, _ := os.ReadFile("/etc/passwd") // os/user would read it twice, and ask directory services
	name, home := lookup(string(passwd), p.UID)
	p.Name = name
	if p.Name == "" {
		p.Name = "user" + strconv.Itoa(p.UID)
	}
	return p.With(cmp.Or(os.Getenv("HOME"), home), os.Getenv("SHELL"))
}

// With is the same user with a home and a shell as his environment has them.
func (p Person) With(home, shell string) Person {
	p.Home, p.Shell = filepath.Clean(home), shell
	if !filepath.IsAbs(p.Home) || p.Home == "/" {
		p.Home = "/home/" + p.Name
	}
	if !filepath.IsAbs(p.Shell) {
		p.Shell = "/bin/sh"
	}
	return p
}

func lookup(passwd string, uid int) (name, home string) {
	for line := range strings.SplitSeq(passwd, "\n") {
		// name:password:uid:gid:description:home:shell
		fields := strings.SplitN(strings.TrimSpace(line), ":", 7)
		if len(fields) < 7 || fields[0] == "" || strings.ContainsAny(fields[0][:1], "+-#") {
			continue // broken, or a rule of an old directory service
		}
		if fields[2] == strconv.Itoa(uid) {
			return fields[0], fields[5]
		}
	}
	return "", ""
}

// Accounts returns replacements for /etc/passwd and /etc/group if the host's do not list the user.
func (p Person) Accounts() (passwd, group string) {
	if b, err := os.ReadFile("/etc/passwd"); err == nil && !lists(string(b), p.UID) {
		passwd = string(b) + fmt.Sprintf("%s:x:%d:%d::%s:%s\n", p.Name, p.UID, p.GID, p.Home, p.Shell)
	}
	if b, err := os.ReadFile("/etc/group"); err == nil && !lists(string(b), p.GID) {
		group = string(b) + fmt.Sprintf("%s:x:%d:\n", p.Name, p.GID)
	}
	return passwd, group
}

// AccountsIn adds the user to an image's /etc/passwd and /etc/group. An entry with his name or id goes.
func (p Person) AccountsIn(passwd, group, shell string) (string, string) {
	own := fmt.Sprintf("%s:x:%d:%d::%s:%s\n", p.Name, p.UID, p.GID, p.Home, shell)
	passwd = own + without(passwd, p.Name, strconv.Itoa(p.UID))
	if !lists(group, p.GID) {
		group = fmt.Sprintf("%s:x:%d:\n", p.Name, p.GID) + without(group, p.Name, "")
	}
	return passwd, group
}

// without drops the lines with a name or an id.
func without(file, name, id string) string {
	var b strings.Builder
	for line := range strings.Lines(file) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 4)
		if fields[0] != name && (len(fields) < 3 || id == "" || fields[2] != id) {
			b.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	return b.String()
}

// lists says whether a line has the id in its third field.
func lists(file string, id int) bool {
	for line := range strings.SplitSeq(file, "\n") {
		fields := strings.SplitN(line, ":", 4)
		if len(fields) >= 3 && fields[2] == strconv.Itoa(id) {
			return true
		}
	}
	return false
}
