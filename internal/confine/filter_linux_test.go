package confine

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The tests in this file run the filter in a BPF machine of their own.

// machine is a loaded filter.
type machine struct{ vm *bpf.VM }

func load(t *testing.T, code []unix.SockFilter) machine {
	t.Helper()
	if len(code) > 4096 {
		t.Fatalf("%d instructions, the kernel takes 4096", len(code))
	}
	var insts []bpf.Instruction
	for _, c := range code {
		insts = append(insts, bpf.RawInstruction{Op: c.Code, Jt: c.Jt, Jf: c.Jf, K: c.K}.Disassemble())
	}
	vm, err := bpf.NewVM(insts)
	if err != nil {
		t.Fatal(err)
	}
	return machine{vm}
}

// run returns what the filter returns for one system call. The machine reads
// words in network order while the kernel's reads them in its own, so words go
// in in network order but stay where a little-endian kernel has them.
func (m machine) run(t *testing.T, audit, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var data [64]byte
	binary.BigEndian.PutUint32(data[0:], nr)
	binary.BigEndian.PutUint32(data[4:], audit)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	value, err := m.vm.Run(data[:])
	if err != nil {
		t.Fatal(err)
	}
	return uint32(value)
}

func verdictName(ret uint32) string {
	switch ret {
	case retAllow:
		return "allow"
	case retPerm:
		return "EPERM"
	case retNosys:
		return "ENOSYS"
	case retProto:
		return "EPROTONOSUPPORT"
	case retNotty:
		return "ENOTTY"
	case retOp:
		return "EOPNOTSUPP"
	}
	return fmt.Sprintf("%#x", ret)
}

// numbers are the names and numbers of this architecture's calls.
func numbers(t *testing.T) *arch.Info {
	t.Helper()
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// verdicts hands out a function that gives the verdict on a call, "none" if this architecture
// does not have it.
func verdicts(t *testing.T, o SeccompOptions, f func(t *testing.T, call func(name string, args ...uint64) string)) {
	t.Helper()
	m, info := load(t, native().filter(o)), numbers(t)
	f(t, func(name string, args ...uint64) string {
		nr, ok := info.SyscallNames[name]
		if !ok {
			return "none"
		}
		return verdictName(m.run(t, audit, uint32(nr), args...))
	})
}

var (
	onlyNested = []string{"mount", "umount2", "mount_setattr", "open_tree", "open_tree_attr", "move_mount",
		"fsopen", "fsconfig", "fsmount", "fspick", "pivot_root", "setns", "unshare", "sethostname", "setdomainname"}
	hidden     = []string{"clone3", "openat2", "keyctl", "add_key", "request_key"}
	beyond     = []string{"kcmp", "chroot", "ptrace", "process_vm_readv", "process_vm_writev"}
	neverZero  = []string{"socket", "socketpair"} // family 0 is none of those allowed
	mustRefuse = []string{"io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf",
		"perf_event_open", "open_by_handle_at", "kexec_load", "kexec_file_load", "init_module", "finit_module",
		"delete_module", "quotactl", "quotactl_fd", "syslog", "acct", "swapon", "swapoff", "reboot",
		"settimeofday", "clock_settime", "iopl", "ioperm", "fanotify_init", "pidfd_getfd", "lsm_set_self_attr"}
)

// TestEveryNumber compares each number, called with zeros, with what Docker's
// own code makes of its profile for a container without capabilities.
func TestEveryNumber(t *testing.T) {
	profile, err := seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		t.Fatal(err)
	}
	var docker []string
	for _, rule := range profile.Syscalls {
		if rule.Action == specs.ActAllow {
			docker = append(docker, rule.Names...)
		}
	}
	want := func(name string, o SeccompOptions, extra []string) string {
		switch {
		case name == "", slices.Contains(hidden, name):
			return "ENOSYS"
		case slices.Contains(mustRefuse, name), slices.Contains(neverZero, name):
			return "EPERM"
		case slices.Contains(onlyNested, name):
			if o.Nesting {
				return "allow"
			}
			return "EPERM"
		case slices.Contains(beyond, name), slices.Contains(docker, name), slices.Contains(extra, name):
			return "allow"
		}
		return "EPERM"
	}
	var extra []string // Docker's rules for this architecture alone
	if audit == unix.AUDIT_ARCH_X86_64 {
		extra = []string{"arch_prctl", "modify_ldt"}
	}
	info := numbers(t)
	for _, o := range []SeccompOptions{{}, {Nesting: true}, {SetID: true}, {Nesting: true, SetID: true}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			code := native().filter(o)
			t.Logf("%d instructions", len(code))
			m := load(t, code)
			for nr := range 1200 {
				name := info.SyscallNumbers[nr]
				if nr >= 403 && nr <= 423 {
					name = "" // calls of 32-bit machines
				}
				if name == "fstatat" {
					name = "newfstatat"
				}
				if got, w := verdictName(m.run(t, audit, uint32(nr))), want(name, o, extra); got != w {
					t.Errorf("%d %s: %s, want %s", nr, name, got, w)
				}
			}
		})
	}
}

// TestKnownNumbers does not trust the library for names and numbers: a table
// shifted by one would pass every other test here.
func TestKnownNumbers(t *testing.T) {
	known := map[uint32][2][]uint32{ // allowed, refused
		0xc000003e: { // x86-64
			{0 /* read */, 1, 2 /* open */, 56 /* clone */, 59 /* execve */, 231 /* exit_group */, 257 /* openat */, 262 /* newfstatat */, 332 /* statx */, 334 /* rseq */},
			{165 /* mount */, 272 /* unshare */, 321 /* bpf */, 323 /* userfaultfd */, 425 /* io_uring_setup */},
		},
		0xc00000b7: { // aarch64
			{56 /* openat */, 63 /* read */, 64, 79 /* newfstatat */, 80 /* fstat */, 94 /* exit_group */, 220 /* clone */, 221 /* execve */, 222 /* mmap */, 291 /* statx */, 293 /* rseq */},
			{40 /* mount */, 97 /* unshare */, 280 /* bpf */, 282 /* userfaultfd */, 425 /* io_uring_setup */},
		},
	}
	m := load(t, native().filter(SeccompOptions{}))
	here, ok := known[audit]
	if !ok {
		t.Fatalf("nothing is known of %#x", uint32(audit))
	}
	for i, want := range []uint32{retAllow, retPerm} {
		for _, nr := range here[i] {
			if got := m.run(t, audit, nr); got != want {
				t.Errorf("%d: %s, want %s", nr, verdictName(got), verdictName(want))
			}
		}
	}
}

// TestForeignABI: the same numbers mean other calls there (i386's 11 is
// execve, x86-64's is munmap), so nothing of it may get through.
func TestForeignABI(t *testing.T) {
	m := load(t, native().filter(SeccompOptions{Nesting: true, SetID: true}))
	for nr := range uint32(600) {
		for _, foreign := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, 0, ^uint32(audit)} {
			if got := m.run(t, foreign, nr); got != retNosys {
				t.Fatalf("%d by ABI %#x: %s", nr, foreign, verdictName(got))
			}
		}
		for _, high := range []uint32{0x40000000, 0x80000000, 0xc0000000, 0xffff0000} {
			if got := m.run(t, audit, high|nr); got != retNosys {
				t.Fatalf("%#x: %s", high|nr, verdictName(got))
			}
		}
	}
	if got := m.run(t, audit, 0xffffffff); got != retNosys {
		t.Errorf("number -1: %s", verdictName(got))
	}
}

// TestLongJumps: the real tables are too small to need them today. Tables of
// many lengths, so that some jump is just short enough and some just too long,
// and with a verdict of several instructions, or all distances would be odd.
func TestLongJumps(t *testing.T) {
	verdicts := []verdict{allow, socketPairs, absent}
	returns := []uint32{retAllow, retPerm, retNosys}
	far := 0
	for size := 1; size <= 700; size += 1 + size/100 {
		long := abi{audit: 7}
		for nr := range size {
			long.verdicts = append(long.verdicts, verdicts[nr%3])
		}
		code := long.filter(SeccompOptions{})
		for _, c := range code {
			if c.Code == unix.BPF_JMP|unix.BPF_JA {
				far++
			}
		}
		m := load(t, code)
		for nr := range size + 10 {
			want := uint32(retNosys)
			if nr < size {
				want = returns[nr%3]
			}
			if got := m.run(t, 7, uint32(nr)); got != want {
				t.Fatalf("%d of %d: %s, want %s", nr, size, verdictName(got), verdictName(want))
			}
		}
	}
	if far == 0 {
		t.Error("no long jump in any program, the test tests nothing")
	}
}
