package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// subordinate is what a user does with the ids that /etc/subuid gives him. Each line that it
// prints is expected below.
const subordinate = `
coffer doctor | grep -o 'ids inside a sandbox: .*'
coffer run -- sh -c 'id -u; cat /proc/self/uid_map | wc -l'
echo "of root: $(coffer run --root -- sh -c 'id -u; touch mine; stat -c %u mine' | tr '\n' ' ')"
stat -c 'outside it is of %u' mine

# What belongs to others inside belongs to the range outside, and lasts as long as the sandbox.
coffer exec --create --name ids -- sudo sh -c "
	mkdir $HOME/d /var/lib/d && touch /usr/bin/t /var/lib/d/f ./w $HOME/d/f && chown -R 33:33 /usr/bin/t /var/lib/d ./w $HOME/d && chmod 700 /var/lib/d $HOME/d"
stat -c 'outside w is of %u:%g' w
coffer stop ids
coffer exec -m ids -- sh -c 'stat -c "%n is of %u:%g" /usr/bin/t /var/lib/d w; ls ~/d 2>/dev/null || echo closed to me'
coffer exec -m ids -- sudo ls /var/lib/d
rm -f w

# All of it goes, although the user himself could not remove it.
rm -r ~/.local/share/coffer/sandboxes/*/home/d 2>/dev/null || echo cannot by hand
coffer rm --force ids >/dev/null
coffer run --root -- sh -c "mkdir $HOME/e && touch $HOME/e/f && chown -R 5:5 $HOME/e && chmod 700 $HOME/e"

# With the tools of an image, its files are the user's, and root's inside.
coffer run --image oci:$HOME/image --root -- sh -c "id; write /usr/share/mine changed; cat /usr/share/mine" 2>/dev/null
coffer run --image oci:$HOME/image -- sh -c "id; cat /usr/share/mine"
ls -A ~/.local/share/coffer/sandboxes | grep -v '^\.lock$' || echo nothing is left
`

const subordinateSays = `ids inside a sandbox: 65536, from /etc/subuid
64646
3
of root: 0 0 
outside it is of 64646
outside w is of 300033:300033
/usr/bin/t is of 33:33
/var/lib/d is of 33:33
w is of 33:33
closed to me
f
cannot by hand
0:0
changed
64646:64646
of the image
nothing is left
`

// TestSubordinateIDs: a user who was given ids has all of them in his sandboxes. Whoever has
// some when he runs the tests does everything with them; the user that root's tests become
// has none, so it is lent some here.
func TestSubordinateIDs(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can lend ids")
	}
	testbed.Needs(t, "unshare", "setpriv", "newuidmap")
	if _, err := os.Stat("/etc/subuid"); err != nil {
		t.Skip(err) // there is nothing to lay another over
	}
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		if b.UID == 0 {
			return // has all of them anyway
		}
		if i, err := testImage(toolbox(t), "plain"); err != nil {
			t.Fatal(err)
		} else if err := i.Write(b.Home+"/image", "1"); err != nil {
			t.Fatal(err)
		}
		etc := filepath.Join(b.Dir, "etc")
		if err := os.Mkdir(etc, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, line := range map[string]string{
			"passwd": fmt.Sprintf("lent:x:%d:%d::%s:/bin/sh\n", b.UID, b.UID, b.Home), "group": fmt.Sprintf("lent:x:%d:\n", b.UID),
			"subuid": "lent:300000:65536\n", "subgid": "lent:300000:65536\n",
		} {
			have, err := os.ReadFile("/etc/" + name)
			if err == nil {
				err = os.WriteFile(filepath.Join(etc, name), append(have, line...), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		lend := fmt.Sprintf(`set -e; for f in passwd group subuid subgid; do mount --bind %s/$f /etc/$f; done; exec setpriv --reuid %d --regid %d --clear-groups sh -c "$0"`, etc, b.UID, b.UID)
		out, err := elsewhere(b.Command(), "unshare", "-m", "--propagation", "private", "sh", "-c", lend, subordinate)
		if err != nil || out != subordinateSays {
			t.Errorf("%v:\n%s\ninstead of\n%s", err, out, subordinateSays)
		}
	})
}
