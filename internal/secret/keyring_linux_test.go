package secret

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/godbus/dbus/v5"
)

// child names, in the environment of this program, a vault in which to do what is asked, as
// a process of its own would: the keyring's client knows one bus for all of its life.
const child = "COFFER_TEST_VAULT"

// hurried is set for one that does not wait longer than a user's.
const hurried = "COFFER_TEST_HURRIED"

func init() {
	dir := os.Getenv(child)
	if dir == "" {
		return
	}
	if os.Getenv(hurried) == "" {
		trial = time.Minute // machines are slow, too
	}
	v := At(dir)
	var err error
	switch os.Args[1] {
	case "set":
		var made *Made
		if made, err = v.Set("A", []byte(os.Args[2])); made != nil {
			fmt.Println(made.Keeping, made.Why)
		}
	case "get":
		var value []byte
		value, err = v.Get("A")
		fmt.Printf("%s\n", value)
	case "move":
		err = v.Move(Keeping(os.Args[2]))
	}
	if err != nil {
		fmt.Println("error:", err)
	}
	os.Exit(0)
}

func play(t *testing.T, dir, bus string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), child+"="+dir, "DBUS_SESSION_BUS_ADDRESS="+bus)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// A bus that takes what it is told and never says a word does not keep anybody for long.
func TestSilentKeyring(t *testing.T) {
	t.Setenv(hurried, "yes")
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	defer func() { l.Close(); <-done }()
	dir := filepath.Join(t.TempDir(), "vault")
	if out := play(t, dir, "unix:path="+path, "set", "1"); out != "file your keyring did not answer within 3s" {
		t.Errorf("said %q", out)
	}
	if out := play(t, dir, "unix:path="+path, "get"); out != "1" {
		t.Errorf("said %q", out)
	}
}

// With a keyring on a bus, the key is there and nowhere else.
func TestRealBus(t *testing.T) {
	bus := startBus(t)
	dir := filepath.Join(t.TempDir(), "vault")
	// Nobody there offers to keep secrets.
	if out := play(t, dir, bus, "set", "1"); !strings.HasPrefix(out, "file The name org.freedesktop.secrets was not provided") {
		t.Errorf("said %q", out)
	}
	ring := offer(t, bus)
	if out := play(t, dir, bus, "move", "keyring"); out != "" || ring.count() != 1 || play(t, dir, bus, "get") != "1" {
		t.Errorf("said %q", out)
	}
	dir = filepath.Join(t.TempDir(), "vault")
	if out := play(t, dir, bus, "set", "2"); out != "keyring <nil>" || ring.count() != 2 {
		t.Errorf("said %q", out)
	}
	if _, err := os.Stat(filepath.Join(dir, identityName)); err == nil {
		t.Error("there is a file too")
	}
	if out := play(t, dir, bus, "get"); out != "2" {
		t.Errorf("said %q", out)
	}
	if out := play(t, dir, bus, "move", "file"); out != "" || ring.count() != 1 || play(t, dir, "autolaunch:", "get") != "2" {
		t.Errorf("said %q", out)
	}
}

// startBus starts a bus of its own.
func startBus(t *testing.T) (address string) {
	t.Helper()
	testbed.Needs(t, "dbus-daemon")
	if _, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil {
		t.Skip("a bus wants its user to have an account: ", err)
	}
	dir := t.TempDir()
	settings := filepath.Join(dir, "settings") // not the host's, whose can be anything
	if err := os.WriteFile(settings, []byte(`<busconfig><type>session</type><listen>unix:path=`+filepath.Join(dir, "bus")+`</listen>
		<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("dbus-daemon", "--config-file="+settings, "--nofork", "--nopidfile", "--print-address=1")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// A ring is as much of a Secret Service as its clients need. It keeps what it is told.
type ring struct {
	conn  *dbus.Conn
	mu    sync.Mutex
	next  int
	items map[dbus.ObjectPath]item
}

type item struct {
	attributes map[string]string
	value      []byte
}

type transferred struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

const (
	ringPath   = "/org/freedesktop/secrets"
	ringLogin  = ringPath + "/aliases/default"
	ringFace   = "org.freedesktop.Secret."
	noPrompt   = dbus.ObjectPath("/")
	ringName   = "org.freedesktop.secrets"
	sessionOne = dbus.ObjectPath(ringPath + "/session/1")
)

func offer(t *testing.T, address string) *ring {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &ring{conn: conn, items: map[dbus.ObjectPath]item{}}
	r.export(t, ringPath, "Service", map[string]any{
		"OpenSession": func(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
			return dbus.MakeVariant(""), sessionOne, nil
		},
		"Unlock": func(list []dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
			return list, noPrompt, nil
		},
	})
	r.export(t, string(sessionOne), "Session", map[string]any{"Close": func() *dbus.Error { return nil }})
	r.export(t, ringLogin, "Collection", map[string]any{
		"CreateItem": func(properties map[string]dbus.Variant, s transferred, _ bool) (dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
			attributes, _ := properties[ringFace+"Item.Attributes"].Value().(map[string]string)
			return r.create(t, item{attributes, s.Value}), noPrompt, nil
		},
		"SearchItems": func(attributes map[string]string) ([]dbus.ObjectPath, *dbus.Error) {
			return r.search(attributes), nil
		},
	})
	if _, err := conn.RequestName(ringName, 0); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *ring) export(t *testing.T, path, face string, methods map[string]any) {
	if err := r.conn.ExportMethodTable(methods, dbus.ObjectPath(path), ringFace+face); err != nil {
		t.Error(err)
	}
}

func (r *ring) create(t *testing.T, i item) dbus.ObjectPath {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	path := dbus.ObjectPath(fmt.Sprintf("%s/item/%d", ringPath, r.next))
	r.items[path] = i
	r.export(t, string(path), "Item", map[string]any{
		"GetSecret": func(session dbus.ObjectPath) (transferred, *dbus.Error) {
			return transferred{Session: session, Parameters: []byte{}, Value: i.value, ContentType: "text/plain"}, nil
		},
		"Delete": func() (dbus.ObjectPath, *dbus.Error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.items, path)
			return noPrompt, nil
		},
	})
	return path
}

func (r *ring) search(attributes map[string]string) (found []dbus.ObjectPath) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, i := range r.items {
		same := true
		for k, v := range attributes {
			same = same && i.attributes[k] == v
		}
		if same {
			found = append(found, path)
		}
	}
	return found
}

func (r *ring) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.items)
}
