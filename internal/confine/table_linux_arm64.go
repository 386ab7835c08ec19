package confine

import "golang.org/x/sys/unix"

const audit = unix.AUDIT_ARCH_AARCH64

var ownRules = []rule{
	{refuse, []int{unix.SYS_ARCH_SPECIFIC_SYSCALL}},
}
