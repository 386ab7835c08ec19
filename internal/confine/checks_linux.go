package confine

import "golang.org/x/sys/unix"

const (
	// Flags of clone that make a namespace. CLONE_NEWTIME is not among them:
	// its bit is part of the exit signal in clone, and clone3 is absent.
	cloneNew = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

	setIDBits = unix.S_ISUID | unix.S_ISGID

	// setDelegation is F_SETDELEG, a lease on a directory (Linux 6.19).
	setDelegation = 1024 + 16

	// O_TMPFILE without the O_DIRECTORY it includes, as the kernel tests it.
	tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY
)

// decide emits what a verdict stands for; every path through it returns.
func (p *program) decide(v verdict, o SeccompOptions) {
	switch v {
	case allow:
		p.ret(retAllow)
	case absent:
		p.ret(retNosys)
	case cloning:
		p.loadArg(0)
		p.retIfAny(cloneNew, retPerm)
		p.ret(retAllow)
	case cloningUser:
		p.loadArg(0)
		p.retIfAny(cloneNew&^unix.CLONE_NEWUSER, retPerm)
		p.ret(retAllow)
	case sockets:
		p.decideSocket(o)
	case socketPairs:
		p.decideSocketPair(o)
	case ioctls:
		p.decideIoctl(o)
	case fcntls:
		p.loadArg(1)
		p.retIf(unix.F_SETLEASE, retPerm)
		p.retIf(setDelegation, retPerm)
		p.ret(retAllow)
	case personas:
		p.decidePersonality()
	case mode1, mode2:
		p.loadArg(1 + uint32(v-mode1))
		p.retIfAny(setIDBits, retPerm)
		p.ret(retAllow)
	case open1, open2:
		p.decideOpen(1+uint32(v-open1), o)
	case chmod1, chmod2:
		if !o.SetID {
			p.loadArg(1 + uint32(v-chmod1))
			if o.IgnoreSetID {
				p.retIfAny(setIDBits, retDone)
			}
			p.retIfAny(setIDBits, retPerm)
		}
		p.ret(retAllow)
	case send2, send3:
		// It connects, and Landlock is not asked.
		p.loadArg(2 + uint32(v-send2))
		p.retIfAny(unix.MSG_FASTOPEN, retPerm)
		p.ret(retAllow)
	case allocates:
		// What only gives room back may pass.
		p.loadArg(1)
		p.retIf(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, retAllow)
		p.retIf(unix.FALLOC_FL_COLLAPSE_RANGE, retAllow)
		p.ret(retOp)
	case owners: // there is only one, who has all files
		p.ret(retDone)
	case extended: // as where the file system has none
		p.ret(retOp)
	default: // refuse; nesting is settled before we come here
		p.ret(retPerm)
	}
}

// decideOpen looks at the flags, and at the mode that follows them.
func (p *program) decideOpen(flags uint32, o SeccompOptions) {
	p.loadArg(flags)
	if o.NoTruncate {
		// To truncate what was opened to read (access mode 0), or for nothing
		// but ioctl (3), works in Linux.
		p.add(unix.BPF_JMP|unix.BPF_JSET, unix.O_TRUNC, 0, 5)
		p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, unix.O_ACCMODE, 0, 0)
		p.retIf(unix.O_RDONLY, retPerm)
		p.retIf(unix.O_ACCMODE, retPerm)
		p.loadArg(flags)
	}
	if o.SetID {
		p.ret(retAllow)
		return
	}
	// A call that creates nothing often leaves garbage for the mode.
	p.retUnlessAny(unix.O_CREAT|tmpfile, retAllow)
	p.loadArg(flags + 1)
	p.retIfAny(setIDBits, retPerm)
	p.ret(retAllow)
}

// decideSocket leaves the families that ordinary programs use. Others reach
// rarely tested kernel code (packet, vsock, ALG, Bluetooth, ...) and may lead
// out of the network namespace.
func (p *program) decideSocket(o SeccompOptions) {
	p.loadArg(0)
	if !o.NoUnix {
		p.retIf(unix.AF_UNIX, retAllow)
	}
	switch {
	case o.NoInternet:
	case o.OnlyTCP:
		p.add(unix.BPF_JMP|unix.BPF_JEQ, unix.AF_INET, 1, 0)
		p.add(unix.BPF_JMP|unix.BPF_JEQ, unix.AF_INET6, 0, tcpLength)
		p.decideTCP()
	default:
		p.retIf(unix.AF_INET, retAllow)
		p.retIf(unix.AF_INET6, retAllow)
	}
	p.add(unix.BPF_JMP|unix.BPF_JEQ, unix.AF_NETLINK, 1, 0)
	p.ret(retPerm)
	// Listing interfaces and addresses goes by NETLINK_ROUTE. For the rest
	// the answer is that of a kernel built without it, because sudo and
	// useradd give up when the audit socket fails in any other way.
	p.loadArg(2)
	p.retIf(unix.NETLINK_ROUTE, retAllow)
	p.ret(retProto)
}

// tcpLength is how many instructions decideTCP has.
const tcpLength = 10

// decideTCP leaves sockets for TCP. What else is a stream (MPTCP, SMC, SCTP) Landlock does
// not take for TCP.
func (p *program) decideTCP() {
	p.loadArg(1)
	p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0) // without SOCK_CLOEXEC, SOCK_NONBLOCK
	p.add(unix.BPF_JMP|unix.BPF_JEQ, unix.SOCK_STREAM, 1, 0)
	p.ret(retPerm)
	p.loadArg(2)
	p.retIf(0, retAllow)
	p.add(unix.BPF_JMP|unix.BPF_JEQ, unix.IPPROTO_TCP, 1, 0)
	p.ret(retPerm)
	p.ret(retAllow)
}

// decideSocketPair leaves pairs of Unix sockets. One of datagram sockets could be
// taken apart and sent to any path, so without Unix sockets only those that stay
// connected to each other are left.
func (p *program) decideSocketPair(o SeccompOptions) {
	p.loadArg(0)
	if !o.NoUnix {
		p.retIf(unix.AF_UNIX, retAllow)
		p.ret(retPerm)
		return
	}
	p.add(unix.BPF_JMP|unix.BPF_JEQ, unix.AF_UNIX, 1, 0)
	p.ret(retPerm)
	p.loadArg(1)
	p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0) // without SOCK_CLOEXEC, SOCK_NONBLOCK
	p.retIf(unix.SOCK_STREAM, retAllow)
	p.retIf(unix.SOCK_SEQPACKET, retAllow)
	p.ret(retPerm)
}

// allocatingIoctls take room on a disk: fallocate by its older names, and a size that every write
// to a file is rounded up to, of gigabytes if one likes.
var allocatingIoctls = []uint32{
	0x40305828, 0x4030582a, // FS_IOC_RESVSP, FS_IOC_RESVSP64
	0x40305839,             // FS_IOC_ZERO_RANGE
	0x4030580a, 0x40305824, // XFS_IOC_ALLOCSP, XFS_IOC_ALLOCSP64
	0x4030580b, 0x40305825, // XFS_IOC_FREESP, XFS_IOC_FREESP64, which are the same
	0x401c5820, // FS_IOC_FSSETXATTR
}

// decideIoctl keeps a program from reaching through a terminal it shares with
// the user: TIOCSTI types for the user, TIOCLINUX pastes and more, TIOCSETD
// loads line disciplines, TIOCCONS takes the console's output.
func (p *program) decideIoctl(o SeccompOptions) {
	p.loadArg(1)
	p.retIf(unix.TIOCSTI, retPerm)
	p.retIf(unix.TIOCLINUX, retPerm)
	p.retIf(unix.TIOCSETD, retPerm)
	p.retIf(unix.TIOCCONS, retPerm)
	if o.NoAllocate {
		for _, request := range allocatingIoctls {
			p.retIf(request, retNotty)
		}
	}
	p.ret(retAllow)
}

// decidePersonality is Docker's list: Linux itself, its 32-bit variant
// (0x0008), either with the kernel version reported as 2.6 (0x20000), and the
// query (all ones). Other bits weaken the address space layout.
func (p *program) decidePersonality() {
	p.loadArg(0)
	for _, persona := range []uint32{0, 0x0008, 0x20000, 0x20008, 0xffffffff} {
		p.retIf(persona, retAllow)
	}
	p.ret(retPerm)
}
