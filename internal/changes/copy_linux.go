package changes

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyFile copies the first size bytes of src into the empty file dst: by
// sharing blocks if the file system can (FICLONE), else inside the kernel, else
// through memory. Holes stay holes, so a sparse file of a terabyte is no way to
// fill the user's disk.
func copyFile(ctx context.Context, dst, src *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		// A clone takes the file as it is now; if that is not what was listed,
		// the caller sees it by the ctime.
		return nil
	}
	for off := int64(0); off < size; {
		from, to, err := nextData(src, off, size)
		if err != nil {
			return err
		}
		if err := copyRange(ctx, dst, src, from, to); err != nil {
			return err
		}
		off = to
	}
	return dst.Truncate(size)
}

// nextData is the first range of data at or after off; empty at size if there is
// none.
func nextData(f *os.File, off, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return size, size, nil
	}
	if err == unix.EINVAL { // a file system without holes
		return off, size, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE); err != nil {
		to, err = size, nil // cut off behind us; the copy will notice
	}
	from, to = min(from, size), min(to, size)
	if to <= off {
		to = size // no progress: the file changes under us
	}
	return from, to, err
}

// copyRange copies [from, to), in pieces so that ctx can stop it.
func copyRange(ctx context.Context, dst, src *os.File, from, to int64) error {
	const piece = 16 << 20
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		in, out := from, from
		n, err := unix.CopyFileRange(int(src.Fd()), &in, int(dst.Fd()), &out, int(min(to-from, piece)), 0)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err == unix.EXDEV || err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP ||
			err == unix.EPERM || err == unix.EBADF:
			return copyPlain(ctx, dst, src, from, to)
		case err != nil:
			return err
		case n == 0:
			return ErrChanged // it was cut off
		}
		from += int64(n)
	}
	return nil
}

// copyPlain is copyRange through memory.
func copyPlain(ctx context.Context, dst, src *os.File, from, to int64) error {
	buf := make([]byte, 1<<20)
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := src.ReadAt(buf[:min(to-from, int64(len(buf)))], from)
		if n == 0 {
			if err == nil || err == io.EOF {
				return ErrChanged
			}
			return err
		}
		if _, err := dst.WriteAt(buf[:n], from); err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}
