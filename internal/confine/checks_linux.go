package confine

import "golang.org/x/sys/unix"

const (
	// Flags of clone that make a namespace. CLONE_NEWTIME is not among them:
	// its bit is part of the exit signal in clone, and clone3 is absent.
	cloneNew = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

	setIDBits = unix.S_ISUID | unix.S_ISGID

	// O_TMPFILE without the O_DIRECTORY it includes, as the kernel tests it.
	tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY
)

// decide emits what a verdict stands for; every path through it returns.
func (p *program) decide(v verdict) {
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
		p.decideSocket()
	case socketPairs:
		p.loadArg(0)
		p.retIf(unix.AF_UNIX, retAllow)
		p.ret(retPerm)
	case ioctls:
		p.decideIoctl()
	case personas:
		p.decidePersonality()
	case mode1, mode2:
		p.loadArg(1 + uint32(v-mode1))
		p.retIfAny(setIDBits, retPerm)
		p.ret(retAllow)
	case open1, open2:
		flags := 1 + uint32(v-open1)
		// A call that creates nothing often leaves garbage for the mode.
		p.loadArg(flags)
		p.retUnlessAny(unix.O_CREAT|tmpfile, retAllow)
		p.loadArg(flags + 1)
		p.retIfAny(setIDBits, retPerm)
		p.ret(retAllow)
	default: // refuse; nesting is settled before we come here
		p.ret(retPerm)
	}
}

// decideSocket leaves the families that ordinary programs use. Others reach
// rarely tested kernel code (packet, vsock, ALG, Bluetooth, ...) and may lead
// out of the network namespace.
func (p *program) decideSocket() {
	p.loadArg(0)
	p.retIf(unix.AF_UNIX, retAllow)
	p.retIf(unix.AF_INET, retAllow)
	p.retIf(unix.AF_INET6, retAllow)
	p.add(unix.BPF_JMP|unix.BPF_JEQ, unix.AF_NETLINK, 1, 0)
	p.ret(retPerm)
	// Listing interfaces and addresses goes by NETLINK_ROUTE. For the rest
	// the answer is that of a kernel built without it, because sudo and
	// useradd give up when the audit socket fails in any other way.
	p.loadArg(2)
	p.retIf(unix.NETLINK_ROUTE, retAllow)
	p.ret(retProto)
}

// decideIoctl keeps a program from reaching through a terminal it shares with
// the user: TIOCSTI types for the user, TIOCLINUX pastes and more, TIOCSETD
// loads line disciplines, TIOCCONS takes the console's output.
func (p *program) decideIoctl() {
	p.loadArg(1)
	p.retIf(unix.TIOCSTI, retPerm)
	p.retIf(unix.TIOCLINUX, retPerm)
	p.retIf(unix.TIOCSETD, retPerm)
	p.retIf(unix.TIOCCONS, retPerm)
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
