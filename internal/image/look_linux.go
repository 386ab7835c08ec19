package image

import (
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Has says whether an image has a program at an absolute path: links are followed as they would
// be inside.
func (i *Image) Has(name string) bool {
	root, err := unix.Open(i.Tree(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path.Clean("/" + name)[1:], &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0
}

// Look finds a program by the PATH of the image.
func (i *Image) Look(name string) (string, bool) {
	for _, dir := range filepath.SplitList(i.Path()) {
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && i.Has(file) {
			return file, true
		}
	}
	return "", false
}
