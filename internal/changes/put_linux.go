package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const tempPrefix = ".coffer-tmp-"

// tempName is the temporary name of an entry. It depends on the name alone, so that the Apply
// after a killed one finds and replaces what that left.
func tempName(rel string) string {
	sum := sha256.Sum256([]byte(path.Base(rel)))
	return tempPrefix + hex.EncodeToString(sum[:8])
}

// isTemp says whether a name could be a temporary one; the sandbox's files of such names are not
// applied, as they could take the place of ours.
func isTemp(name string) bool {
	digits, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// removeTemp removes what a killed Apply left under a temporary name.
func removeTemp(dir *os.File, temp string) error {
	err := unix.Unlinkat(int(dir.Fd()), temp, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		err = unix.Unlinkat(int(dir.Fd()), temp, unix.AT_REMOVEDIR)
	}
	if err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove leftover %s: %w", temp, err)
	}
	return nil
}

// put makes a directory, or writes a file or link under its temporary name.
func (a *applier) put(e *entry, dir *os.File) error {
	temp := tempName(e.Path)
	if err := removeTemp(dir, temp); err != nil {
		return err
	}
	if e.up.isDir() {
		return a.putDir(e, dir)
	}
	if e.up.is(unix.S_IFLNK) {
		a.temps[e] = true
		return unix.Symlinkat(e.Target, int(dir.Fd()), temp)
	}
	src, _, err := a.w.upper.regular(e.Path)
	if err != nil {
		return fmt.Errorf("upper: %w", gone(err))
	}
	defer src.Close()
	if err := same(src, e); err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	a.temps[e] = true
	dst := os.NewFile(uintptr(fd), temp)
	defer dst.Close()
	if err := copyFile(a.ctx, dst, src, e.up.size); err != nil {
		return err
	}
	if err := same(src, e); err != nil {
		return err
	}
	// Not before the content is there: it is the sandbox's mode. Only the nine bits, so that no
	// set-user-ID bit arrives.
	if err := unix.Fchmod(fd, e.up.mode&0o777); err != nil {
		return err
	}
	return dst.Close()
}

// same fails unless an open upper file is what was listed, to the last write: the ctime moves with
// each, and the sandbox cannot set it.
func same(f *os.File, e *entry) error {
	n, err := statFile(f)
	if err == nil && (n.stamp() != e.up.stamp() || n.size != e.up.size || n.mode != e.up.mode) {
		err = fmt.Errorf("upper: %w", ErrChanged)
	}
	return err
}

// putDir makes a directory, or opens one up for the files that are to come; finishDir gives it
// its own mode at the end.
func (a *applier) putDir(e *entry, dir *os.File) error {
	fd, name := int(dir.Fd()), path.Base(e.Path)
	if err := a.unchanged(e, dir); err != nil {
		return err
	}
	if e.low.isDir() {
		return chmodDir(dir, name, dirMode(e.up, e.low)|0o700)
	}
	if e.low != nil {
		if err := unix.Unlinkat(fd, name, 0); err != nil {
			return err
		}
	}
	err := unix.Mkdirat(fd, name, 0o700)
	if err == unix.EEXIST {
		return fmt.Errorf("workspace: %w", ErrChanged)
	}
	if err == nil {
		a.done(e, dir)
	}
	return err
}

// finishDir sets the final mode of a directory that is new or changed its mode.
func (a *applier) finishDir(e *entry, dir *os.File) error {
	err := chmodDir(dir, path.Base(e.Path), dirMode(e.up, e.low))
	if err == nil && e.low.isDir() {
		a.done(e, dir)
	}
	return err
}

// chmodDir sets the mode of a directory by name, without following a link. The magic link leads
// to the open directory itself, which need not be readable.
func chmodDir(dir *os.File, name string, mode uint32) error {
	fd, err := unix.Openat(int(dir.Fd()), name, pathFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

// copyFile copies the first size bytes of src into the empty file dst, inside the kernel where
// that can. Holes stay holes, so a sparse file of a terabyte is no way to fill the user's disk.
func copyFile(ctx context.Context, dst, src *os.File, size int64) error {
	const piece = 16 << 20
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := unix.Seek(int(src.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO || err == nil && data >= size {
			break // a hole to the end, or cut off, which the caller sees
		}
		if err != nil {
			data = at // a file system without holes
		}
		hole, err := unix.Seek(int(src.Fd()), data, unix.SEEK_HOLE)
		if err != nil || hole <= data {
			hole = size
		}
		if _, err := src.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := dst.Seek(data, io.SeekStart); err != nil {
			return err
		}
		n, err := io.Copy(dst, io.LimitReader(src, min(hole-data, size-data, piece)))
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrChanged // it was cut off
		}
		at = data + n
	}
	return dst.Truncate(size)
}
