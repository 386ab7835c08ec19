package escape

import "golang.org/x/sys/unix"
import "fmt"

// kernelTable: services of the kernel that a sandbox does without.
func kernelTable() (all []attempt) {
	const arrived = "EFAULT EBADF EINVAL" // the kernel looked at the bad arguments
	for _, name := range []string{
		"mount", "umount2", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "move_mount", "mount_setattr", "pivot_root",
	} {
		all = append(all, attempt{n: "59." + name, name: "call " + name, do: "call " + name, wall: "EPERM", as: "both", by: "ns", free: arrived})
	}
	for _, name := range []string{"init_module", "finit_module", "delete_module", "kexec_load", "swapon", "syslog", "acct", "quotactl", "fanotify_init", "open_by_handle", "settimeofday", "sethostname", "reboot"} {
		all = append(all, attempt{n: "x8." + name, name: "call " + name, do: "call " + name, wall: "EPERM", as: "both", by: "root", free: arrived + " ENOENT ESRCH", why: "this kernel or this host's root has it not"})
	}
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		all = append(all, attempt{n: "57." + ns, name: "start a process in a new namespace: " + ns, do: "clone " + ns, wall: "EPERM", as: "both", by: "ns"})
	}
	all = append(all,
		attempt{n: "57", name: "call unshare", do: "call unshare", wall: "EPERM", as: "both", free: arrived},
		attempt{n: "58", name: "call clone3", do: "call clone3", wall: "ENOSYS", as: "both", free: arrived},
		attempt{n: "60", name: "call setns", do: "call setns", wall: "EPERM", as: "both", free: arrived},
		attempt{n: "61", name: "call io_uring_setup", do: "call io_uring_setup", wall: "EPERM ENOSYS", as: "both", free: arrived, why: "this kernel has no io_uring"},
		attempt{n: "61.ent", name: "call io_uring_enter", do: "call io_uring_enter", wall: "EPERM ENOSYS", as: "both", free: arrived, why: "this kernel has no io_uring"},
		attempt{n: "62", name: "call userfaultfd", do: "uffd", wall: "EPERM", as: "both", why: "this kernel has no userfaultfd"},
		attempt{n: "63", name: "call bpf", do: "call bpf", wall: "EPERM", as: "both", by: "root", free: arrived},
		attempt{n: "63.perf", name: "call perf_event_open", do: "call perf", wall: "EPERM", as: "both", free: arrived},
		attempt{n: "64", name: "call keyctl", do: "call keyctl", wall: "ENOSYS EPERM", as: "both", free: arrived + " ENOKEY EOPNOTSUPP"},
		attempt{n: "64.add", name: "call add_key", do: "call add_key", wall: "ENOSYS EPERM", as: "both", free: arrived},
		attempt{n: "64.req", name: "call request_key", do: "call request_key", wall: "ENOSYS EPERM", as: "both", free: arrived},
		attempt{n: "64.key", name: "add a key", do: "add-key {id}", wall: "ENOSYS EPERM", as: "both"},
		attempt{n: "65", name: "enter the kernel by the 32-bit door", do: "compat32", wall: "ENOSYS SIGSEGV", as: "both", why: "this kernel has no 32-bit door"},
		attempt{n: "65.x32", name: "enter the kernel by the x32 door", do: "x32", wall: "ENOSYS", as: "both", why: "this kernel has no x32 door"},
		attempt{n: "x8.aslr", name: "switch off address randomisation", do: "persona", wall: "EPERM", as: "both"},
		attempt{n: "x8.at2", name: "call openat2, whose modes no filter sees", do: "call openat2", wall: "ENOSYS", as: "both", free: arrived},
		attempt{n: "x8.host", name: "change the host name", do: "hostname evil", wall: "EPERM", as: "both", by: "ns"},
	)
	all = append(all, socketFamilies()...)
	for i, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces",
		"/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
	} {
		all = append(all, attempt{n: "68." + string(rune('a'+i)), name: "open " + path + " for writing", do: "openw " + path, wall: "EROFS EACCES ENOENT", as: "both", by: "root", why: "this host has no such file, or shows it read-only"})
	}
	return append(all,
		attempt{n: "68.sys", name: "look around in /sys", do: "list /sys/kernel", wall: "ENOENT", as: "both", why: "this host has no /sys"},
		attempt{n: "68.cg", name: "look around in the control groups", do: "list /sys/fs/cgroup", wall: "ENOENT", as: "both", why: "this host has no control groups"},
		attempt{n: "68.core", name: "read the kernel's memory", do: "openw /proc/kcore", control: "list /proc", wall: "EACCES EROFS ENOENT EPERM", as: "both"},
	)
}

// socketFamilies: protocols that reach around the network namespace or into rarely
// used code.
func socketFamilies() (all []attempt) {
	for _, s := range []struct {
		n, name          string
		family, typ, pro int
		by, wall, why    string
	}{
		{"67.pkt", "packet", unix.AF_PACKET, unix.SOCK_RAW, 0, "ns", "EPERM", ""},
		{"67.raw", "raw IP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, "ns", "EPERM", ""},
		{"67.vsock", "vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0, "", "EPERM", "this kernel has no vsock"},
		{"67.alg", "kernel crypto", unix.AF_ALG, unix.SOCK_SEQPACKET, 0, "", "EPERM", "this kernel has no crypto sockets"},
		{"67.nlx", "netlink, netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, "", "EPROTONOSUPPORT", "this kernel has no netfilter sockets"},
		{"67.nla", "netlink, audit", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT, "", "EPROTONOSUPPORT", "this kernel has no audit sockets"},
		{"67.nlu", "netlink, device events", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT, "", "EPROTONOSUPPORT", ""},
	} {
		do := fmt.Sprintf("socket %d %d %d", s.family, s.typ, s.pro)
		all = append(all, attempt{n: s.n, name: "open a socket: " + s.name, do: do, wall: s.wall, as: "both", by: s.by, why: s.why})
	}
	high := fmt.Sprintf("socket %d %d 0 high", unix.AF_PACKET, unix.SOCK_RAW)
	return append(all,
		attempt{n: "66", name: "open a packet socket with a bit set above", do: high, wall: "EPERM", as: "both", by: "ns"},
	)
}

// socketTable: programs of the host that listen on sockets.
var socketTable = []attempt{
	{n: "69", name: "connect to a socket in the home", do: "dial unix {homesock} {id}", wall: "ENOENT", hurt: "{heard}", as: "both"},
	{n: "69.ro", name: "connect to a socket in a directory shown read-only", do: "dial unix {rosock} {id}", wall: "ENOENT EACCES EPERM ECONNREFUSED", hurt: "{heard}", as: "both"},
	{n: "70", name: "connect to an abstract socket", do: "dial unix {abstract} {id}", wall: "ECONNREFUSED", hurt: "{heard}", as: "both"},
	{n: "71", name: "send a datagram to a socket, unconnected", do: "sendto {dgram} {id}", wall: "ENOENT", hurt: "{heard}", as: "both"},
	{n: "72", name: "point a socket pair at a socket", do: "socketpair {dgram} {id}", wall: "ENOENT", hurt: "{heard}", as: "both"},
	{n: "73", name: "find the D-Bus session", do: "env DBUS_SESSION_BUS_ADDRESS", wall: "ABSENT", as: "both"},
	{n: "74", name: "connect to the bus's socket", do: "dial unix {sock} {id}", wall: "ENOENT", hurt: "{heard}", as: "both"},
	{n: "74.run", name: "find the user's runtime directory", do: "env XDG_RUNTIME_DIR", wall: "ABSENT"},
	{n: "75", name: "connect to a daemon's socket in /run", do: "dial unix {runsock} {id}", wall: "ENOENT", hurt: "{heard}", as: "both"},
	{n: "75.env", name: "find the container daemon", do: "env DOCKER_HOST", wall: "ABSENT"},
	{n: "76", name: "find the SSH agent", do: "env SSH_AUTH_SOCK", wall: "ABSENT", as: "both"},
	{n: "76.gpg", name: "find the GPG agent", do: "env GPG_AGENT_INFO", wall: "ABSENT"},
	{n: "77", name: "find the X display", do: "env DISPLAY", wall: "ABSENT"},
	{n: "77.way", name: "find the Wayland display", do: "env WAYLAND_DISPLAY", wall: "ABSENT"},
	{n: "77.pipe", name: "find PipeWire", do: "env PIPEWIRE_REMOTE", wall: "ABSENT"},
	{n: "x9.sysv", name: "attach a shared memory segment of the host", do: "shm {sysvshm}", wall: "ENOENT", as: "both"},
	{n: "x9.posix", name: "open shared memory of the host by name", do: "write {posixshm}", wall: "ENOENT", hurt: "{posixshm}", as: "both"},
}

// networkTable: listeners on the host's loopback, and nothing else.
var networkTable = []attempt{
	{n: "83", name: "connect to the host's loopback", do: "tcp {tcp} {id}", wall: "ECONNREFUSED", hurt: "{heard}", as: "both"},
	{n: "83.six", name: "connect to the host's loopback by IPv6", do: "tcp {tcp6} {id}", wall: "ECONNREFUSED", hurt: "{heard}", as: "both"},
	{n: "83.udp", name: "send to the host's loopback", do: "dial udp {udp} {id}", wall: "ECONNREFUSED", hurt: "{heard}", as: "both"},
	{n: "83.udp6", name: "send to the host's loopback by IPv6", do: "dial udp6 {udp6} {id}", wall: "ECONNREFUSED", hurt: "{heard}"},
	{n: "94.mptcp", name: "connect by MPTCP", do: "mptcp {tcp} {id}", wall: "ECONNREFUSED EPROTONOSUPPORT ENOPROTOOPT", hurt: "{heard}", as: "both", why: "this kernel has no MPTCP"},
	{n: "94.fast", name: "connect by TCP Fast Open", do: "fastopen {tcp} {id}", wall: "ECONNREFUSED EOPNOTSUPP EINPROGRESS", hurt: "{heard}", as: "both", why: "this host has Fast Open switched off"},
	{n: "94.sctp", name: "connect by SCTP", do: "sctp {tcp} {id}", wall: "ECONNREFUSED EPROTONOSUPPORT", by: "nobody", why: "nobody listens by SCTP on this host"},
}
