package confine

import (
	"slices"

	"golang.org/x/sys/unix"
)

// The filter is a program for the kernel's classic BPF machine: one
// accumulator, forward jumps only. It sees the number of the system call, the
// ABI it came in by, and the values of its arguments, but nothing that an
// argument points to. The machine compares 32 bits at a time. That suits us:
// for every argument we look at the kernel itself uses the low half only, so
// that we look at the low half only too. (Filters that compared all 64 bits
// were bypassed with a bit set above: CVE-2019-10063.)

// A verdict is what happens to one system call. The zero verdict is that of
// numbers the tables have no name for.
type verdict uint8

const (
	absent      verdict = iota // ENOSYS
	refuse                     // EPERM
	allow                      //
	nesting                    // allow with Nesting, otherwise refuse
	cloning                    // look at clone's flags
	cloningUser                // the same, but a user namespace is fine
	sockets                    // look at socket's family
	socketPairs                // look at socketpair's family
	ioctls                     // look at ioctl's request
	personas                   // look at personality's argument
	mode1                      // no set-id bits in argument 1
	mode2                      // no set-id bits in argument 2
	open1                      // open flags in argument 1, mode in the next
	open2                      // open flags in argument 2, mode in the next
	chmod1                     // as mode1, and an attribute
	chmod2                     // as mode2, and an attribute
	owners                     // changes a file's owner
	extended                   // sets an extended attribute
	truncates                  // changes a file's length by its name
	send2                      // flags of a message in argument 2
	send3                      // flags of a message in argument 3
	allocates                  // look at what fallocate does
	fcntls                     // look at fcntl's command
)

// An abi is one way into the kernel: its number in the audit subsystem, and
// the verdict for each system call, indexed by number. Numbers beyond the end
// are absent. That includes x32, whose numbers have bit 30 set.
type abi struct {
	audit    uint32
	verdicts []verdict
}

// Where the kernel puts things in struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16 // eight bytes each, low half first on our machines
)

const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retDone  = unix.SECCOMP_RET_ERRNO // nothing happens, successfully
	retPerm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retNosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	retProto = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
	retNotty = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOTTY)
	retOp    = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
)

// filter assembles the program.
func (a *abi) filter(o SeccompOptions) []unix.SockFilter {
	p := make(program, 0, 512)
	p.load(offsetArch)
	p.add(unix.BPF_JMP|unix.BPF_JEQ, a.audit, 1, 0)
	p.ret(retNosys)
	p.load(offsetNumber)
	p.search(a.spans(o), o)
	return p
}

// A span is a run of system call numbers with the same verdict, from first to
// where the next span begins.
type span struct {
	first   uint32
	verdict verdict
}

func (a *abi) spans(o SeccompOptions) []span {
	spans := make([]span, 0, 160)
	for nr, v := range a.verdicts {
		v = v.under(o)
		if len(spans) == 0 || spans[len(spans)-1].verdict != v {
			spans = append(spans, span{uint32(nr), v})
		}
	}
	return append(spans, span{uint32(len(a.verdicts)), absent})
}

// under settles the verdicts that depend on an option.
func (v verdict) under(o SeccompOptions) verdict {
	switch v {
	case nesting:
		if o.Nesting {
			return allow
		}
		return refuse
	case cloning:
		switch {
		case o.Nesting:
			return allow
		case o.UserNamespaces:
			return cloningUser
		}
	case mode1, mode2:
		if o.SetID {
			return allow
		}
	case open1, open2:
		if o.SetID && !o.NoTruncate {
			return allow
		}
	case chmod1, chmod2:
		if o.SetID {
			return allow
		}
	case owners:
		if !o.OneID {
			return allow
		}
	case extended:
		if !o.NoExtended {
			return allow
		}
	case truncates:
		if !o.NoTruncate {
			return allow
		}
		return refuse
	case send2, send3:
		if !o.OnlyTCP {
			return allow
		}
	case allocates:
		if !o.NoAllocate {
			return allow
		}
	}
	return v
}

// A program grows at its end while jumps in it are relative, so finished parts
// need no change when something is put before them.
type program []unix.SockFilter

func (p *program) add(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
}

func (p *program) load(offset uint32) {
	p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0)
}

func (p *program) loadArg(n uint32) { p.load(offsetArgs + 8*n) }

func (p *program) ret(value uint32) { p.add(unix.BPF_RET|unix.BPF_K, value, 0, 0) }

// retIf returns value if the accumulator is k.
func (p *program) retIf(k, value uint32) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ, k, 0, 1)
	p.ret(value)
}

// retIfAny returns value if the accumulator has any of the bits.
func (p *program) retIfAny(bits, value uint32) {
	p.add(unix.BPF_JMP|unix.BPF_JSET, bits, 0, 1)
	p.ret(value)
}

// retUnlessAny returns value if the accumulator has none of the bits.
func (p *program) retUnlessAny(bits, value uint32) {
	p.add(unix.BPF_JMP|unix.BPF_JSET, bits, 1, 0)
	p.ret(value)
}

// search emits a binary search for the number in the accumulator: about seven
// comparisons for any system call. The kernel tries all numbers once when the
// filter is installed and afterwards does not even run it for those that are
// allowed whatever their arguments (since Linux 5.11).
func (p *program) search(spans []span, o SeccompOptions) {
	if len(spans) == 1 {
		p.decide(spans[0].verdict, o)
		return
	}
	mid := len(spans) / 2
	at := len(*p)
	p.add(unix.BPF_JMP|unix.BPF_JGE, spans[mid].first, 0, 0)
	p.search(spans[:mid], o)
	lower := len(*p) - at - 1
	if lower <= 255 {
		(*p)[at].Jt = uint8(lower)
	} else {
		// Too far for a conditional jump, which has eight bits: hop over
		// an unconditional one, which has thirty-two.
		(*p)[at].Jf = 1
		far := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(lower)}
		*p = slices.Insert(*p, at+1, far)
	}
	p.search(spans[mid:], o)
}
