package escape

import (
	"fmt"
	"strings"
)

// table is everything that is made in one sandbox over a repository. Numbers are
// those of the catalogue; those with an x are about this very design.
func table() (all []attempt) {
	for _, part := range [][]attempt{
		fileTable, gitTable, modeTable(), secretTable(), processTable, agentTable, kernelTable(), socketTable, networkTable, homeTable(),
	} {
		all = append(all, part...)
	}
	return all
}

// readOnly is met by who opens for writing what is shown read-only: the mount's wall,
// or, if he may not write by the file's mode, which is looked at first, that one.
const readOnly = "EROFS EACCES"

// fileTable: writes outside.
var fileTable = []attempt{
	{n: "1", name: "write a file outside", do: "write {out}", wall: "ENOENT", hurt: "{out}", as: "both"},
	{n: "1.ro", name: "write a file that is shown read-only", do: "write {ro}", wall: readOnly, hurt: "{ro}", as: "both"},
	{n: "1.new", name: "create a file beside it", do: "create {ro}.new", wall: "EROFS", hurt: "{ro}.new", as: "both"},
	{n: "1.sys", name: "create a file in /usr", do: "create /usr/local/new-{id}", control: "create {out}.new", wall: "EROFS EACCES", hurt: "{out}.new /usr/local/new-{id}", by: "nobody", why: "nobody writes to this host's /usr"},
	{n: "1.lay", name: "create a file in /usr as root: it lands in a layer", do: "create /usr/local/new-{id}", wall: "ok", hurt: "/usr/local/new-{id}", as: "root", by: "nobody", why: "nobody writes to this host's /usr"},
	{n: "2", name: "write through a link in the workspace", do: "via-link {ro} {new}", wall: readOnly, hurt: "{ro}", as: "both"},
	{n: "2.out", name: "write through a link to what is not shown", do: "via-link {out} {new}", wall: "ENOENT", hurt: "{out}", as: "both"},
	{n: "3", name: "hard link to an outside file", do: "link {ro} {new}", wall: "EXDEV", hurt: "{ro}", as: "both"},
	{n: "4", name: "move an outside file into the workspace", do: "rename {ro} {new}", wall: "EXDEV", hurt: "{ro}", as: "both"},
	{n: "5", name: "write below /proc/self/root", do: "write /proc/self/root{ro}", wall: readOnly, hurt: "{ro}", as: "both"},
	{n: "5.pid1", name: "write below /proc/1/root", do: "write /proc/1/root{ro}", control: "write /proc/{pid}/root{ro}", wall: "EACCES", hurt: "{ro}", as: "both"},
	{n: "6", name: "reopen a read-only descriptor for writing", do: "reopen {ro}", wall: readOnly, hurt: "{ro}", as: "both"},
	{n: "6.in", name: "reopen standard input for writing", do: "reopen-fd 0", control: "reopen {ro}", wall: "ok EACCES", hurt: "{ro}"},
	{n: "7", name: "remove the workspace's mount point", do: "rename {work} {work}.aside", wall: "EBUSY EROFS EACCES EXDEV", hurt: "{work}.aside", as: "both"},
	{n: "10", name: "write to an inherited descriptor", do: fmt.Sprint("write-fd ", inheritedFile), wall: "EBADF", as: "both"},
	{n: "11", name: "write relative to an inherited directory", do: fmt.Sprint("dir-fd ", inheritedDir, " {name}"), wall: "EBADF", hurt: "{out}", as: "both"},
	{n: "11.cwd", name: "write relative to the current directory", do: "write {rel}", wall: "ENOENT", hurt: "{out}", as: "both"},
	{n: "11.fds", name: "find any descriptor that was left open", do: "fds", wall: "NONE", as: "both"},
	{n: "12", name: "chmod a file outside", do: "chmod {ro}", wall: "EROFS", hurt: "{ro}", as: "both"},
	{n: "12.time", name: "set the times of a file outside", do: "utime {ro}", wall: "EROFS", hurt: "{ro}", as: "both"},
	{n: "12.attr", name: "set an attribute of a file outside", do: "setxattr {ro}", wall: "EROFS", hurt: "{ro}", as: "both"},
	{n: "12.own", name: "chown a file outside", do: "chown {ro} 12345", wall: "EROFS ok", hurt: "{ro}", as: "both", by: "root"},
	{n: "13", name: "truncate a file outside", do: "truncate {ro}", wall: readOnly, hurt: "{ro}", as: "both"},
	{n: "3.lease", name: "lease a file, so that nobody can open it", do: "lease {new}", wall: "EPERM", as: "both"},
	{n: "14", name: "make a character device", do: "mknod {new} c", wall: "EPERM", hurt: "{new}", as: "both", by: "root"},
	{n: "14.b", name: "make a block device", do: "mknod {new} b", wall: "EPERM", hurt: "{new}", as: "both", by: "root"},
	{n: "16", name: "unmount .git", do: "umount {git}", control: "in-mount {git} umount", wall: "EPERM", as: "both", by: "ns"},
	{n: "16.rw", name: "remount .git for writing", do: "remount {git}", control: "in-mount {git} remount", wall: "EPERM", as: "both", by: "ns"},
	{n: "16.attr", name: "clear .git's read-only attribute", do: "setattr {git}", control: "in-mount {git} setattr", wall: "EPERM", as: "both", by: "ns"},
	{n: "16.sys", name: "unmount the layer over /usr", do: "umount /usr", control: "in-mount {work} umount", wall: "EPERM", as: "root", by: "ns"},
	{n: "16.proc", name: "remount /proc/sys for writing", do: "remount /proc/sys", control: "in-mount {work} remount", wall: "EPERM", as: "both", by: "ns"},
	{n: "16.bind", name: "mount the workspace over /etc", do: "bind-over {work} /etc", wall: "EPERM", as: "both", by: "ns"},
	{n: "17", name: "open a file by its handle", do: "handle {ro}", wall: "EPERM", hurt: "{ro}", as: "both", by: "root"},
	{n: "x1", name: "overwrite coffer's own program", do: "write /.coffer/bin/coffer", control: "write {out}", wall: "EROFS EACCES ETXTBSY", hurt: "{out}", as: "both"},
	{n: "x1.new", name: "put a program beside it", do: "create /.coffer/bin/new", control: "create {out}.new", wall: "EROFS EACCES", as: "both"},
	{n: "x1.exe", name: "overwrite it by /proc/1/exe", do: "write /proc/1/exe", control: "readlink /proc/{pid}/exe", wall: "EACCES", as: "both"},
	{n: "x2", name: "write to the layers directly", do: "create /.coffer/layers/new", control: "create {out}.new", wall: "EROFS", as: "both"},
	{n: "x2.root", name: "create a file in the root directory", do: "create /new", control: "create {out}.new", wall: "EROFS EACCES"},
	{n: "x3", name: "see mounts of the host", do: "mountinfo /sys", wall: "ABSENT", as: "both", why: "this host has no /sys mount"},
	{n: "x3.host", name: "find the host's old root", do: "list /.host", control: "list {home}", wall: "ENOENT", as: "both"},
}

// gitTable: what the host's git would run. {git} is the workspace's own, over which the
// sandbox's lies: what is done to that one may well be done.
var gitTable = []attempt{
	{n: "8", name: "move .git away", do: "rename {git} {new}", wall: "EBUSY", hurt: "{git}", as: "both"},
	{n: "9", name: "create a hook that was not there", do: "create {git}/hooks/post-checkout", wall: "ok ENOENT EEXIST", hurt: "{git}/hooks/post-checkout", as: "both"},
	{n: "30", name: "overwrite a hook", do: "write {git}/hooks/pre-commit", wall: "ok ENOENT EEXIST", hurt: "{git}/hooks/pre-commit", as: "both"},
	{n: "30.mv", name: "move a file over a hook", do: "rename {work}/file {git}/hooks/pre-commit", wall: "ok ENOENT EXDEV", hurt: "{git}/hooks/pre-commit", as: "both"},
	{n: "30.rm", name: "remove git's config", do: "unlink {git}/config", wall: "ok ENOENT EEXIST", hurt: "{git}/config", as: "both"},
	{n: "31", name: "create a hook where core.hooksPath points", do: "create {work}/.husky/_/post-checkout-{id}", wall: "EROFS EACCES", hurt: "{work}/.husky/_/post-checkout-{id}"},
	{n: "35", name: "replace .git with a file that names another one", do: "replace {git}", wall: "EBUSY", hurt: "{git}", as: "both"},
	{n: "38", name: "write git's config", do: "write {git}/config", wall: "ok ENOENT EEXIST", hurt: "{git}/config", as: "both"},
	{n: "38.wt", name: "create config.worktree", do: "create {git}/config.worktree", wall: "ok ENOENT EEXIST", hurt: "{git}/config.worktree", as: "both"},
	{n: "38.attr", name: "create info/attributes", do: "create {git}/info/attributes", wall: "ok ENOENT EEXIST", hurt: "{git}/info/attributes", as: "both"},
	{n: "38.alt", name: "create objects/info/alternates", do: "create {git}/objects/info/alternates", wall: "ok ENOENT EEXIST", hurt: "{git}/objects/info/alternates", as: "both"},
	{n: "x4", name: "hard link to git's config", do: "link {git}/config {new}", wall: "EXDEV ENOENT", hurt: "{git}/config", as: "both"},
	{n: "x4.ref", name: "write a ref", do: "create {git}/refs/heads/evil", wall: "ok ENOENT EEXIST", hurt: "{git}/refs/heads/evil", as: "both"},
	{n: "x4.obj", name: "write to the host's objects", do: "create /.coffer/objects/0/evil", control: "create {git}/objects/evil", wall: "EROFS EACCES", hurt: "{git}/objects/evil", as: "both"},
	{n: "x4.host", name: "write to what is fetched from", do: "create /.coffer/host.git/refs/evil", control: "create {git}/refs/evil", wall: "EROFS EACCES", hurt: "{git}/refs/evil", as: "both"},
	{n: "x4.chmod", name: "make git's directory writable", do: "chmod {git}", wall: "ok ENOENT EEXIST", hurt: "{git}", as: "both"},
}

// modeTable: programs that run with more rights than their caller.
func modeTable() (all []attempt) {
	all = []attempt{
		{n: "15", name: "become another user by a set-user-id program", do: "exec-suid {suid}", wall: "SAME-USER", as: "both", why: "only root can make one"},
		{n: "15.nnp", name: "run without no_new_privs", do: "nnp", wall: "NO-NEW-PRIVS", as: "both"},
		{n: "15.caps", name: "hold any capability", do: "caps", wall: "NONE", by: "ns"},
		{n: "x5.cap", name: "give a file of the workspace a capability", do: "setcap {new}", wall: "EPERM", as: "both", by: "root"},
	}
	for _, way := range []string{"chmod", "chmod-high", "fchmod", "fchmodat2", "open", "creat", "mknod", "tmpfile", "openat2"} {
		wall := "EPERM"
		switch {
		case way == "openat2":
			wall = "ENOSYS"
		case strings.Contains(way, "chmod"):
			wall = "EPERM NO-BIT" // for root it succeeds and does nothing
		}
		all = append(all, attempt{n: "x5." + way, name: "leave a set-user-id file in the workspace, by " + way, do: "suid-file " + way + " {new}", wall: wall, as: "both"})
	}
	return all
}
