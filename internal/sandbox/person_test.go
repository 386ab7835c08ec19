package sandbox

import (
	"os"
	"os/user"
	"testing"
)

func TestLookup(t *testing.T) {
	const file = "root:x:0:0:root:/root:/bin/bash\n" +
		"# a comment:x:7:7::/no:/no\n" +
		"+nis:x:8:8::/no:/no\n" +
		"short:x:9\n" +
		"me:x:1000:1000:Me, Myself:/home/me:/bin/sh\n" +
		"again:x:1000:1000::/home/again:/bin/sh"
	for uid, want := range map[int][2]string{
		0: {"root", "/root"}, 1000: {"me", "/home/me"}, 7: {}, 8: {}, 9: {}, 5: {},
	} {
		if name, home := lookup(file, uid); name != want[0] || home != want[1] {
			t.Errorf("%d is %q in %q, want %q", uid, name, home, want)
		}
	}
}

// Whoever has the user's name or id in an image makes room for him.
func TestAccountsIn(t *testing.T) {
	me := Person{Name: "me", UID: 1000, GID: 100, Home: "/home/me"}
	passwd, group := me.AccountsIn("root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\nme:x:5:5::/:/bin/sh\nlast:x:7:7::/:/bin/sh", "root:x:0:\nme:x:5:\n", "/bin/ash")
	if want := "me:x:1000:100::/home/me:/bin/ash\nroot:x:0:0::/root:/bin/sh\nlast:x:7:7::/:/bin/sh\n"; passwd != want {
		t.Errorf("passwd is %q, want %q", passwd, want)
	}
	if want := "me:x:100:\nroot:x:0:\n"; group != want {
		t.Errorf("group is %q, want %q", group, want)
	}
	if _, group = me.AccountsIn("", "users:x:100:\n", "/bin/sh"); group != "users:x:100:\n" {
		t.Errorf("group is %q", group)
	}
}

// The real file is understood as the standard library understands it.
func TestMe(t *testing.T) {
	want, err := user.LookupId("0")
	if err != nil {
		t.Fatal(err)
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	if name, home := lookup(string(passwd), 0); name != want.Username || home != want.HomeDir {
		t.Errorf("root is %q in %q, want %q in %q", name, home, want.Username, want.HomeDir)
	}
	if me := Me(); me.UID != os.Getuid() || me.Name == "" || me.Home == "" || me.Shell == "" {
		t.Errorf("I am %+v", me)
	}
}
