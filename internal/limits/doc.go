// Package limits bounds what a sandbox may take from its host: memory,
// processes, processor time and open files.
//
// # A limit is a promise
//
// A limit that was asked for is enforced by the kernel, or [Prepare] fails with
// an [UnavailableError] that says why and what to do about it. Nothing is
// approximated: an address-space rlimit, for one, is no substitute for a memory
// limit (it counts what a program reserves, not what it uses; node.js with
// WebAssembly fails under 4 GB of it while using 50 MB), so it is never used.
//
// # Which mechanism enforces what
//
//	memory      cgroup v2 or v1
//	cpus        cgroup v2 or v1
//	pids        cgroup v2 or v1, otherwise RLIMIT_NPROC
//	open files  RLIMIT_NOFILE
//
// Each controller lives in exactly one hierarchy of the host, so the choice is
// made per limit: v2 where it lists the controller, v1 where that is what the
// host has, which includes hybrid hosts whose v2 tree is there but empty.
//
// A sandbox's groups are directories named "coffer-<name>" directly below the
// cgroup coffer itself runs in. Below, never beside: a limit that somebody put
// around coffer (a container, a systemd unit) goes on holding for what coffer
// starts. Whoever can write these directories stands outside the limit, so an
// engine must not show a writable cgroupfs to the sandbox.
//
// # cgroup v2 and the processes that are in the way
//
// A v2 cgroup either holds processes or hands controllers to its children, not
// both. To make a limited child of its own cgroup, coffer has to move every
// process out of it first, into the leaf "coffer.self". That is ours to do only
// when all those processes are coffer and its descendants; with anybody else in
// there (the shell it was typed in) Prepare refuses and names the way to get a
// cgroup of one's own. The leaf stays for the life of the process: moving back
// would take the controllers away from every other sandbox.
//
// # What happens at the limit
//
// Memory includes swap: a sandbox cannot go on in the host's swap space. (Where
// the host does not account swap, v2 has no knob for it: then the limit is on
// RAM alone.) When memory runs out the kernel kills the one process inside the
// sandbox that frees most, with SIGKILL, seen as exit status 137. We leave
// memory.oom.group at 0 on purpose: with 1 the kernel would also kill the
// sandbox's PID 1, and a compiler that ate too much would take the agent, its
// terminal and the reason along. PID 1 is small and so the last to be chosen;
// a guest that wants certainty raises oom_score_adj of what it starts. If PID 1
// is chosen all the same, the kernel ends its PID namespace with it.
//
// At the pids limit fork fails with EAGAIN. By cgroup, threads of all users in
// the sandbox count together. RLIMIT_NPROC counts threads per user inside the
// sandbox's user namespace (Linux 5.14; before, it counted all processes of
// that user on the host, and is not used). The kernel exempts the host's root
// from it, so for root it does not count as enforcement.
//
// # A disk that runs full
//
// No quota is to be had by an ordinary user, so a [Disk] is looked at. A sandbox with a v2 group can be
// frozen meanwhile, see [Group.Freeze]; on a host whose controllers are in v1, an empty v2 group is made
// for that beside the others.
//
// # Who owns a group
//
// The process that called Prepare holds a lock (flock) on each directory until
// it closes the group or dies, however it dies. [Sweep] removes only what it
// can lock, so it takes neither a group that is just being made nor one of
// another coffer with another state directory.
package limits
