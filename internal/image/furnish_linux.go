package image

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPoints are files that every sandbox has its own of, laid over those of the image.
var mountPoints = []string{"passwd", "group", "hosts", "hostname", "resolv.conf", "gitconfig"}

// furnish puts an empty file where a sandbox's own will be and the image has none, or a link.
func (t *tree) furnish() error {
	t.forget()
	t.made, t.above = map[string]bool{}, map[string]bool{}
	if err := t.checkRoot(); err != nil {
		return err
	}
	for _, name := range mountPoints {
		var st unix.Stat_t
		if unix.Fstatat(t.root, "etc/"+name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			continue
		}
		if err := t.apply(change{kind: makeFile, name: "etc/" + name, mode: 0o644}, strings.NewReader("")); err != nil {
			return err
		}
	}
	return nil
}

// checkRoot wants an /etc that is a directory: what is laid over its files must lie there.
func (t *tree) checkRoot() error {
	var st unix.Stat_t
	err := unix.Fstatat(t.root, "etc", &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return errors.New("its /etc is not a directory")
	}
	return nil
}

// syncTree has the disk keep what was unpacked before the name leads to it.
func syncTree(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Syncfs(fd)
}
