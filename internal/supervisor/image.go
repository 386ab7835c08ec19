package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cofferhq/coffer/internal/image"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// system is what a sandbox has its system directories from.
type system struct {
	tree          string // of an image; "" for the host's own
	passwd, group string // what the lists of accounts are to say; "" as they do
	login         string // what /etc/profile says
}

// Images is where the images of the store are that a sandbox is in. data is coffer's own
// directory.
func Images(data string) *image.Store { return image.Open(filepath.Join(data, "images")) }

// openImage finds the image that the sandbox was made with, and the user's place in it.
func openImage(sb *sandbox.Sandbox, data string) (f system, err error) {
	me, i := sandbox.Me(), sb.Image
	if i.None() {
		f.passwd, f.group = me.Accounts()
		login, _ := os.ReadFile("/etc/profile")
		f.login = string(login)
		return f, nil
	}
	found, err := Images(data).Get(i.Digest)
	if errors.Is(err, image.ErrNotHere) {
		err = ui.Error(fmt.Sprintf("the image %s, which sandbox %s was made with, is no longer on this machine", i.Ref, sb.Name),
			"pull it again with 'coffer images pull "+image.Pinned(i.Ref, i.Digest)+"'")
	}
	if err != nil {
		return f, err
	}
	f.tree = found.Tree()
	root, err := os.OpenRoot(f.tree)
	if err != nil {
		return f, err
	}
	defer root.Close()
	shell := i.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	f.passwd, f.group = me.AccountsIn(readIn(root, "etc/passwd"), readIn(root, "etc/group"), shell)
	f.login = readIn(root, "etc/profile")
	return f, nil
}

// maxFile bounds what is read of a file of an image.
const maxFile = 1 << 20

// readIn reads a text file of an image, which is empty if it cannot be read.
func readIn(root *os.Root, name string) string {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return ""
	}
	return string(text)
}
