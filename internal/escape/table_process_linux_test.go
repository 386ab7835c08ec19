package escape

import "strings"

// secretTable: what a sandbox must not learn.
func secretTable() (all []attempt) {
	for i, s := range secrets {
		all = append(all, attempt{n: "22." + string(rune('a'+i)), name: "read ~/" + s, do: "read {home}/" + s, wall: "ENOENT", as: "both"})
	}
	for _, name := range []string{"SECRET_TOKEN", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "PYTHONSTARTUP", "GIT_SSH_COMMAND"} {
		n := "56."
		if name == "SECRET_TOKEN" {
			n = "24."
		}
		all = append(all, attempt{n: n + strings.ToLower(name[:4]), name: "find $" + name, do: "env " + name, wall: "ABSENT", as: "both"})
	}
	return append(all, []attempt{
		{n: "22.shad", name: "read /etc/shadow", do: "shadow", wall: "EACCES EMPTY NOTHING-TOLD", as: "both", by: "root", why: "this host has no /etc/shadow"},
		{n: "23", name: "link a secret into the workspace", do: "link {home}/.ssh/id_ed25519 {new}", wall: "ENOENT", hurt: "{home}/.ssh/id_ed25519", as: "both"},
		{n: "23.mv", name: "move a secret's directory into the workspace", do: "rename {home}/.aws {new}", wall: "ENOENT EXDEV", hurt: "{home}/.aws/credentials"},
		{n: "24.all", name: "find the secret in any process's environment", do: "scan-proc canary-+4711", wall: "ABSENT", as: "both"},
		{n: "25", name: "read a host process's environment", do: "read /proc/{pid}/environ", wall: "ENOENT", as: "both"},
		{n: "25.cmd", name: "read a host process's command line", do: "read /proc/{pid}/cmdline", wall: "ENOENT", as: "both"},
		{n: "26.keys", name: "read /proc/keys", do: "read /proc/keys", wall: "EMPTY", as: "both", why: "this kernel shows no keys"},
		{n: "27", name: "list coffer's store", do: "list {home}/.local/share/coffer/sandboxes", wall: "ENOENT", as: "both"},
		{n: "29", name: "stat a secret", do: "stat {home}/.ssh/id_ed25519", wall: "ENOENT"},
		{n: "29.ls", name: "list a secret directory", do: "list {home}/.ssh", wall: "ENOENT"},
	}...)
}

// processTable: other processes of the host.
var processTable = []attempt{
	{n: "49", name: "kill a process of the host", do: "kill {pid}", wall: "ESRCH", hurt: "{alive}", as: "both"},
	{n: "49.prio", name: "renice a process of the host", do: "renice {pid}", wall: "ESRCH", hurt: "{alive}"},
	{n: "50", name: "trace a process of the host", do: "ptrace {pid}", wall: "ESRCH", as: "both"},
	{n: "51", name: "write its memory by /proc", do: "mem {pid} {addr}", wall: "ENOENT", hurt: "{alive}", as: "both"},
	{n: "52", name: "write its memory by process_vm_writev", do: "vm-write {pid} {addr}", wall: "ESRCH", hurt: "{alive}", as: "both"},
	{n: "52.read", name: "read its memory by process_vm_readv", do: "vm-read {pid} {addr}", wall: "ESRCH"},
	{n: "53", name: "open a pidfd of it", do: "pidfd {pid}", wall: "ESRCH", as: "both"},
	{n: "53.get", name: "take a descriptor out of it", do: "pidfd-get {pid}", wall: "ESRCH EPERM"},
	{n: "x6", name: "leave a chroot towards the host", do: "chroot {out}", wall: "ENOENT", hurt: "{out}", as: "root", by: "root"},
	{n: "x6.user", name: "chroot as a user", do: "chroot {out}", wall: "EPERM", hurt: "{out}", by: "root"},
	{n: "x7", name: "raise a hard limit", do: "prlimit", wall: "EPERM", as: "both", by: "root", why: "root of this host may not either"},
}

// agentTable: the first process, which holds capabilities over the sandbox. Outside
// the same is done to a process of the user's.
var agentTable = []attempt{
	{n: "55", name: "trace the first process", do: "ptrace 1", control: "ptrace {pid}", wall: "EPERM", as: "both"},
	{n: "55.all", name: "trace any of its threads", do: "ptrace-all 1", control: "ptrace-all {pid}", wall: "EPERM EACCES", as: "both"},
	{n: "55.mem", name: "open its memory", do: "mem 1 0", control: "mem {pid} {addr}", wall: "EACCES", as: "both"},
	{n: "55.mems", name: "open the memory of any of its threads", do: "mem-all 1", control: "mem-all {pid}", wall: "EACCES", as: "both"},
	{n: "55.vm", name: "read its memory by process_vm_readv", do: "vm-read 1 400000", control: "vm-read {pid} {addr}", wall: "EPERM", as: "both"},
	{n: "55.fd", name: "take one of its descriptors", do: "pidfd-get 1", control: "pidfd-get {pid}", wall: "EPERM", as: "both"},
	{n: "55.fds", name: "open its control stream by /proc/1/fd", do: "fd-of 1 3", control: "fd-of {pid} 2", wall: "EACCES ENOENT", as: "both"},
	{n: "55.lsfd", name: "follow one of its descriptors", do: "readlink /proc/1/fd/3", control: "readlink /proc/{pid}/fd/1", wall: "EACCES ENOENT", as: "both"},
	{n: "55.env", name: "read its environment", do: "read /proc/1/environ", control: "read /proc/{pid}/environ", wall: "EACCES", as: "both"},
	{n: "55.exe", name: "follow /proc/1/exe", do: "readlink /proc/1/exe", control: "readlink /proc/{pid}/exe", wall: "EACCES", as: "both"},
	{n: "55.cwd", name: "follow /proc/1/cwd", do: "list /proc/1/cwd", control: "list /proc/{pid}/cwd", wall: "EACCES", as: "both"},
	{n: "55.root", name: "follow /proc/1/root", do: "list /proc/1/root", control: "list /proc/{pid}/root", wall: "EACCES", as: "both"},
	{n: "55.ns", name: "enter its namespaces", do: "setns /proc/1/ns/mnt", control: "setns /proc/self/ns/uts", wall: "EACCES EPERM", as: "both", by: "ns"},
	{n: "55.race", name: "open its memory while it starts a program as root", do: "race-init", control: "mem-all {pid}", wall: "NEVER-OPEN", as: "both"},
	{n: "55.tram", name: "catch a program on its way to root, unconfined", do: "race-root", control: "mem-all {pid}", wall: "NEVER-OPEN"},
	{n: "x1.race", name: "get hold of coffer's program on the host meanwhile", do: "race-exe", control: "exe {pid}", wall: "NEVER-OPEN"},
	{n: "48", name: "stay in the launcher's session", do: "session", wall: "OWN-SESSION", by: "nobody", why: "outside, the launcher's session is visible: there is nothing to find"},
}

// homeTable: what runs when the user next logs in. The sandbox's home is its own, so
// it may write there, and the user's must not change.
func homeTable() (all []attempt) {
	for i, s := range startup {
		all = append(all, attempt{
			n: "104." + string(rune('a'+i)), name: "change ~/" + s, do: "write {home}/" + s, wall: "ENOENT", hurt: "{home}/" + s,
		})
	}
	return append(all, []attempt{
		{n: "19", name: "create ~/.bash_login in the sandbox's own home", do: "create {home}/.bash_login", wall: "ok", hurt: "{home}/.bash_login"},
		{n: "20", name: "create a file where secrets are on the host", do: "mkdir {home}/.ssh/{id}", wall: "ENOENT", hurt: "{home}/.ssh/{id}", as: "both"},
		{n: "104.path", name: "put a program into a directory of PATH", do: "create {home}/.local/bin/git-{id}", wall: "EROFS", hurt: "{home}/.local/bin/git-{id}", as: "both"},
		{n: "104.cron", name: "install a crontab", do: "openw /var/spool/cron/crontabs/{id}", control: "openw {ro}", wall: "ENOENT EACCES EROFS", as: "both"},
		{n: "104.dirs", name: "move ~/.local with the tools in it", do: "rename {home}/.local {home}/.aside", control: "rename {home}/.kube {home}/.aside", wall: "ok EBUSY EXDEV", hurt: "{home}/.aside"},
		{n: "18", name: "use another spelling of .git", do: "mkdir {work}/.GIT", wall: "ok", hurt: "{git}", by: "nobody", why: "file names are case-sensitive here, so it is another directory"},
	}...)
}
