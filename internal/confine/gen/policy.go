//go:build linux

package main

// ours is where we differ from Docker's default profile, or want to be sure
// that a later version of it changes nothing: system call to the name of a
// verdict in package confine.
var ours = map[string]string{
	// Debuggers must work. The process namespace, and that the caller has
	// capabilities which programs inside have not, protect everybody else.
	"ptrace":            "allow",
	"process_vm_readv":  "allow",
	"process_vm_writev": "allow",
	"kcmp":              "allow",
	// The kernel asks for CAP_SYS_CHROOT itself, and package builders use it.
	"chroot": "allow",

	// Namespaces and mounts: much kernel code behind a capability that
	// everybody has in a namespace of his own.
	"clone":          "cloning",
	"unshare":        "nesting",
	"setns":          "nesting",
	"mount":          "nesting",
	"umount2":        "nesting",
	"mount_setattr":  "nesting",
	"open_tree":      "nesting",
	"open_tree_attr": "nesting",
	"move_mount":     "nesting",
	"fsopen":         "nesting",
	"fsconfig":       "nesting",
	"fsmount":        "nesting",
	"fspick":         "nesting",
	"pivot_root":     "nesting",
	"sethostname":    "nesting", // every container runtime calls it
	"setdomainname":  "nesting",

	// Their arguments are behind a pointer, where a filter cannot look.
	// Programs that are told they do not exist use clone and openat.
	"clone3":  "absent",
	"openat2": "absent",

	// Keyrings are not in any namespace but the user's. Container runtimes
	// go on without them after ENOSYS, and give up after EPERM.
	"keyctl":      "absent",
	"add_key":     "absent",
	"request_key": "absent",

	// Flags by which a message is a connection, too.
	"sendmsg":  "send2",
	"sendto":   "send3",
	"sendmmsg": "send3",

	"socket":      "sockets",
	"socketpair":  "socketPairs",
	"ioctl":       "ioctls",
	"personality": "personas",

	// Every way to give a file a set-user-id or set-group-id bit.
	"chmod":     "chmod1",
	"fchmod":    "chmod1",
	"fchmodat":  "chmod2",
	"fchmodat2": "chmod2",
	"mknod":     "mode1",
	"mknodat":   "mode2",
	"creat":     "mode1",
	"open":      "open1",
	"openat":    "open2",

	// Other ways to change what a file is like, that some sandboxes do without.
	"chown":         "owners",
	"fchown":        "owners",
	"lchown":        "owners",
	"fchownat":      "owners",
	"setxattr":      "extended",
	"lsetxattr":     "extended",
	"fsetxattr":     "extended",
	"setxattrat":    "extended",
	"removexattrat": "allow",
	"truncate":      "truncates",

	"fallocate": "allocates",

	// Docker's profile has been through phases of allowing some of these.
	// (io_uring is refused by prefix: it does by its ring what the filter
	// refuses as a system call.)
	"userfaultfd":       "refuse",
	"bpf":               "refuse",
	"perf_event_open":   "refuse",
	"open_by_handle_at": "refuse",
	"kexec_load":        "refuse",
	"kexec_file_load":   "refuse",
	"init_module":       "refuse",
	"finit_module":      "refuse",
	"delete_module":     "refuse",
	"quotactl":          "refuse",
	"quotactl_fd":       "refuse",
	"syslog":            "refuse",
	"acct":              "refuse",
	"swapon":            "refuse",
	"swapoff":           "refuse",
	"reboot":            "refuse",
	"settimeofday":      "refuse",
	"clock_settime":     "refuse",
	"fanotify_init":     "refuse",
	"lookup_dcookie":    "refuse",
	"nfsservctl":        "refuse",
	"vhangup":           "refuse",
	"iopl":              "refuse",
	"ioperm":            "refuse",
}
