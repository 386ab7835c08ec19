// Package knock asks for a program in a running sandbox while this process is still being
// set up. When it is ready to show what the program prints, the program runs.
//
// Go initialises packages in the order of their dependencies, then of their paths. This one
// depends on nothing but the system calls, so that nine tenths of the packages in this
// program come after it: package os is the watershed, and nothing here may need it. (A test
// sees to it.) That rules out strings, bytes, reflection, and what is made of them; so
// what takes some thought is done by the supervisor, which is awake and warm. It is told the
// arguments, the environment and the directory as they are, and makes of them what package
// inside makes of its own. A supervisor that will not or cannot answers nothing, and the
// program is asked for in the usual way: see package quick, which also carries on from here.
//
// Only what is plain is done here: a command line with nothing in it but -m, the exact name or
// id of a sandbox, or the directory of one, and standard input that is not a terminal.
package knock

import (
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/pack"
	"github.com/cofferhq/coffer/internal/umask"
)

// Off is the environment variable that, if set, leaves everything to the long way: for
// those who compare the two, and for tests that play coffer.
const Off = "COFFER_NO_QUICK"

// RecordVersion is the version of sandboxes' records that is known here.
const RecordVersion = "7"

const (
	// maxPath is shorter than what a socket's address holds on any system.
	maxPath = 100
	// maxRecord is more than most records have.
	maxRecord = 4096
	// maxEnv bounds the environment that is passed on.
	maxEnv = 256 << 10
)

// A Knock is a program that was asked for.
type Knock struct {
	Args
	At      time.Time
	ID      string // of the sandbox
	Socket  int    // where the supervisor answers
	Said    []byte // what it has answered
	NoInput bool   // as it was said
	Merged  bool
	Umask   *uint16 // nil for the usual one
}

// Made is this process's knock, if there was one.
var Made *Knock

func init() {
	if a, ok := Parse(arguments()); ok && getenv(Off) == "" {
		Made = knock(a)
	}
}

// knock finds the sandbox and sends the request, or returns nil if something is not as it
// usually is.
func knock(a Args) *Knock {
	if isTerminal(0) {
		return nil
	}
	here, err := syscall.Getwd() // as the kernel has it, without links
	if err != nil {
		return nil
	}
	store, ok := place()
	if !ok {
		return nil
	}
	names := entries(store)
	id, record := find(store, names, a.Match, here)
	if id == "" {
		return nil
	}
	dir := store + "/" + id
	if exists(dir + "/setting-up") {
		return nil
	}
	fd := connect(dir, "control.sock")
	if fd < 0 {
		return nil
	}
	k := &Knock{Args: a, At: time.Now(), ID: id, Socket: fd, NoInput: isNull(0), Merged: same(1, 2), Umask: umask.Own()}
	if !k.send(here) {
		syscall.Close(fd)
		return nil
	}
	// Who has input for the program must not keep it waiting.
	if k.NoInput && !littered(names) && k.over(dir, record) {
		syscall.Exit(0)
	}
	return k
}

// place is the store of sandboxes, if it is where it usually is and nobody else's.
func place() (dir string, ok bool) {
	home := getenv("HOME")
	if !hasPrefix(home, "/") {
		return "", false
	}
	if dir = getenv("XDG_DATA_HOME"); !hasPrefix(dir, "/") {
		dir = home + "/.local/share"
	}
	dir += "/coffer/sandboxes"
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR || st.Mode&0o022 != 0 || int(st.Uid) != syscall.Geteuid() {
		return "", false
	}
	return dir, true
}

// find is the id and the record of the one sandbox with exactly this id or this name; without
// either, over this directory.
func find(store string, names []string, match, here string) (id, record string) {
	if match == "" && (!plain(here) || len(here) > maxRecord/2) {
		return "", ""
	}
	for _, name := range names {
		if name == match {
			record, whole := read(store, name)
			if whole && begins(record, name, "") {
				return name, record
			}
			return "", ""
		}
	}
	for _, name := range names {
		if name[0] == '.' {
			continue
		}
		r, whole := read(store, name)
		if match == "" && r != "" && !begins(r, name, "") {
			return "", "" // of another version: it may be over this directory, too
		}
		if !begins(r, name, match) || match == "" && !contains(r, workspace+here+"\",\n") {
			continue
		}
		if id != "" || !whole {
			return "", ""
		}
		id, record = name, r
	}
	return id, record
}

// littered says whether what dead processes began or did not finish lies about: others will
// see to it. What else they may have left one of the next commands looks for.
func littered(names []string) bool {
	for _, name := range names {
		if hasPrefix(name, ".new-") || hasPrefix(name, ".gone-") {
			return true
		}
	}
	return false
}

// workspace is what stands before the path of the workspace in a record.
const workspace = "\n  \"workspace\": {\n    \"path\": \""

// begins says whether a sandbox's record is of the version that we know, and has this name, if
// any. It begins as is written here; names have no letters in them that need escapes.
func begins(record, id, name string) bool {
	begin := "{\n  \"version\": " + RecordVersion + ",\n  \"id\": \"" + id + "\",\n  \"name\": \""
	if name != "" {
		begin += name + "\",\n"
	}
	return hasPrefix(record, begin)
}

// read reads the beginning of a record, where its names and its workspace are, and says
// whether that is all of it.
func read(store, id string) (record string, whole bool) {
	fd, err := syscall.Open(store+"/"+id+"/sandbox.json", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer syscall.Close(fd)
	buf := make([]byte, maxRecord)
	n, err := syscall.Read(fd, buf)
	if err != nil || n < 0 {
		return "", false
	}
	return string(buf[:n]), n < len(buf)
}

// plain says whether a path is the same in JSON.
func plain(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

func getenv(name string) string {
	value, _ := syscall.Getenv(name)
	return value
}

func contains(s, what string) bool {
	for i := range len(s) - len(what) + 1 {
		if s[i:i+len(what)] == what {
			return true
		}
	}
	return false
}

// pack is the request in bytes, after its length as all requests.
func (k *Knock) pack(env []string, here string) []byte {
	b := make([]byte, 4, 2048)
	b = append(b, Mark)
	b = pack.Flags(b, k.NoInput, k.Merged, k.Umask != nil)
	if k.Umask != nil {
		b = pack.Number(b, uint64(*k.Umask))
	}
	b = pack.Text(b, here)
	b = pack.Texts(b, k.Command)
	b = pack.Texts(b, env)
	n := len(b) - 4
	b[0], b[1], b[2], b[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return b
}

func (k *Knock) send(here string) bool {
	env, size := syscall.Environ(), 0
	for _, e := range env {
		size += len(e)
	}
	for _, arg := range k.Command {
		size += len(arg)
	}
	if size > maxEnv {
		return false
	}
	b := k.pack(env, here)
	for len(b) > 0 {
		n, err := syscall.Write(k.Socket, b)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return false // what was sent is not a whole request, and so no request
		}
		b = b[n:]
	}
	return true
}
